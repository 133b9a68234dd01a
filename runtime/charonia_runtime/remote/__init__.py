"""
An inference server used from another process: frontends that run in processes of their own have one of these.

`server` is what the frontends' process sees (`core.server.InferenceServer`), `peer` serves one such process on top of
any server, `processes` starts, watches and ends them. Between the two lies one `link`: frames over a socketpair, large
tensors in shared memory, both as `ipc` has them. `messages` are requests and responses inside the frames, `documents`
everything else, which is rare and therefore JSON.

Belongs here: what it takes that nobody notices the second process. Does not: frontends, the engine, or which of them
run where.
"""
