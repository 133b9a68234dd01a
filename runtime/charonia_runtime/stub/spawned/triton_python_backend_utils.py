"""
`triton_python_backend_utils` of a process that a model has started anew.

Classes, constants and functions that need no server work there; calls of the server have no session and fail.
"""

import sys
from importlib import import_module

from charonia_package import provide_package  # type: ignore[import-not-found]  # this folder is on the path

provide_package()
_utils = import_module("charonia_runtime.stub.triton_python_backend_utils")
for _alias in ("triton_python_backend_utils", "c_python_backend_utils"):
    sys.modules[_alias] = _utils
