"""
HTTP/1.1: requests cut from bytes, answers to bytes, and the life of the connections that they travel on.

Belongs here: framing, keep-alive, pipelining, limits, accepting and a graceful stop. Does not: routes or statuses of
our errors; a frontend brings those as a `connection.Handler`. The reader is sans-I/O. Only here are httptools and
uvicorn known.
"""
