"""
HTTP/1.1 and HTTP/2 for any frontend: bytes to requests, answers to bytes, connections and the sockets that they use.

Belongs here: what the protocols say, whoever uses them: framing, flow control, keep-alive, limits against hostile
clients, binding and a graceful stop. Does not: routes, JSON, protobuf, statuses of our errors; a frontend brings those
as a handler. The two protocols share `addresses`, `certificates`, `descriptors`, `inflation` and
`short_texts`, and do not know each other.
"""
