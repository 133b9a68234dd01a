"""
HTTP/2: requests cut from frames, answers to frames, and the life of the connections that they travel on.

Belongs here: frames, header blocks, flow control, keep-alive, budgets against hostile clients, accepting and a
graceful stop. Does not: what a request means (gRPC's messages, statuses, deadlines); a frontend brings that as a
`stream.Handler`. `connection` and all that it is made of are sans-I/O: bytes and the time in, bytes out. Only
`protocol` and `listener` know asyncio; only here is hpack known.
"""
