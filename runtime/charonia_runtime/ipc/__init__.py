"""
One message channel and one shared-memory arena between the server and a child process.

`frames` are bytes with fixed little-endian headers, `records` the tensors, requests and responses inside them,
`channel` carries them over a socketpair, `segments` maps shared memory and `arena` hands out blocks of it.
Large tensors lie in shared memory, small ones travel inside the frame; nothing is ever pickled. `restarts` says how
long to wait before a child that died is started again, `lifeline` ends a child whose server is gone.

Belongs here: what both ends must agree on. Does not: what a message means to a model or to the server.
Imports core, numpy and the standard library only, and runs on Python 3.10 and later: the child's interpreter may be
another one than the server's.
"""
