"""
Import path of processes that a model starts anew, by `multiprocessing` with `spawn` or `forkserver` for instance.

This folder is the last entry of the model's `sys.path`, which such a process takes over. Belongs here: modules that
must be found by their plain names in a fresh interpreter. Does not: anything that runs in the stub process itself.
"""
