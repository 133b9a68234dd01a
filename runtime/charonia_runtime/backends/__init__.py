"""
One module for each `backend:` name; `load_backend` finds it when a model asks, so a library loads only then.

Each module has a class `Backend` (see `core.backend`). Backends do not know each other, the engine or a wire.

Backends of others are found by their names, too (`_own`): one in a folder of `--backend-directory` before ours, because
the operator has put it there; one of an installed package after ours, so that none can replace them unnoticed.
"""

import difflib
import pkgutil
from importlib import import_module
from pathlib import Path

from charonia_runtime.backends import _own
from charonia_runtime.core.backend import Backend
from charonia_runtime.core.errors import InvalidArgumentError

_LEAST_CHARACTERS = 4
_OTHER_NAMES = {"libtorch": "pytorch", "trt": "tensorrt", "tf": "tensorflow", "xgboost": "fil", "lightgbm": "fil"}


def load_backend(name: str, directory: Path | None = None) -> type[Backend]:
    """
    The class of backend `name`; `directory` is that of the operator's own backends.

    Raises InvalidArgumentError for a name that nobody has, InternalError for a backend that cannot be used.
    """
    own = None if directory is None else _own.in_folder(name, directory)
    if own is not None:
        return own
    if name in backend_names():
        backend: type[Backend] = import_module(f"{__name__}.{name}").Backend
        return backend
    offered = _own.installed(name)
    if offered is None:
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{name}', try specifying runtime on the model configuration."
            f"{_meant(name)}"
        )
    return offered


def _meant(name: str) -> str:
    known, lower = backend_names(), name.lower()
    parts = [one for one in known if len(lower) >= _LEAST_CHARACTERS and lower in one]  # onnx, torch
    nearest = [*difflib.get_close_matches(lower, known, n=1), *parts, *filter(None, [_OTHER_NAMES.get(lower)])]
    return f" Did you mean '{nearest[0]}'?" if nearest else ""


def backend_names() -> list[str]:
    """Every backend that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
