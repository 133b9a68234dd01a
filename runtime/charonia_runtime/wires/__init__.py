"""
HTTP/1.1 for any frontend: bytes to requests, answers to bytes, connections and the socket that they come in by.

Belongs here: what the protocol says, whoever uses it: framing, keep-alive, pipelining, limits against hostile clients,
binding and a graceful stop. Does not: routes, JSON, statuses of our errors; a frontend brings those as a
`connection.Handler`. The reader is sans-I/O. Only here are httptools and uvicorn known.
"""
