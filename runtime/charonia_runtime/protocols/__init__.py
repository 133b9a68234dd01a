"""
Bytes and documents to core types and back: REST v2 JSON, gRPC v2 messages, model configurations, settings.

Pure functions: no sockets, no files, no event loop. The only package that knows protobuf (the generated modules
that `tritonclient` carries, so that a client in the same process shares our descriptors). Statuses and headers of
an answer are the frontends' business.
"""
