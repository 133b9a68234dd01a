"""
`grpc.reflection` messages: clients that have no .proto files (grpcurl, graphical tools) ask a server for them.

`schema` writes down the services whose files nobody brings along, `answers` replies. Their descriptors live in a pool
of their own: in the process's they would clash with the packages that carry the same ones.
"""
