"""
One module for each `backend:` name; `load_backend` finds it when a model asks, so a library loads only then.

Each module has a class `Backend` (see `core.backend`). Backends do not know each other, the engine or a wire.
"""

import pkgutil
from importlib import import_module

from charonia_runtime.core.backend import Backend
from charonia_runtime.core.errors import InvalidArgumentError


def load_backend(name: str) -> type[Backend]:
    """The class of backend `name`. Raises InvalidArgumentError for a name that no module of this folder has."""
    if name not in backend_names():
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{name}', try specifying runtime on the model configuration."
        )
    backend: type[Backend] = import_module(f"{__name__}.{name}").Backend
    return backend


def backend_names() -> list[str]:
    """Every backend that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
