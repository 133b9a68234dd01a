"""
The vocabulary of inference: data types, tensors, requests, batches, model configurations, errors, and the two seams
`server.InferenceServer` (what a frontend may ask) and `backend.Backend` (what a backend must do).

Belongs here: plain types and pure rules that at least two of frontends, engine and backends share.
Does not: I/O, threads, asyncio, JSON, protobuf, HTTP or gRPC status, a concrete framework.
Standard library and numpy only.
Everyone may import core; core imports nothing of ours.
"""
