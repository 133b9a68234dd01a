"""
The `python` backend: the user's `model.py`, each instance in a process of its own (spec of Triton's python backend).

`backend` loads a version, `environment` finds the interpreter, `stub_process` starts and ends the child, `instance`
sends it batches and starts it anew when it dies, `calls` serves what the model asks of the server. The child itself is
the package `stub`; only the path of its code is known here.
"""

from charonia_runtime.backends.python.backend import Backend

__all__ = ["Backend"]
