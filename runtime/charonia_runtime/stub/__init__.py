"""
The child process of the Python backend: one interpreter that runs one instance of a `model.py`.

`worker` is its main loop, `session` its end of the channel, `user_model` finds and calls the user's code, and
`triton_python_backend_utils` is the module that this code imports, made of the classes beside it.

Belongs here: all that runs beside user code. Does not: anything that the server needs.
Imports core, ipc, numpy and the standard library only and runs on Python 3.10 and later: the interpreter may be one
of the user's that has nothing of ours installed.
"""
