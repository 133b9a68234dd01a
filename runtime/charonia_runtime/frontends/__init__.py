"""
One module (or package) for each protocol: sockets, routes, one table from error codes to statuses, its own flags.

Each has a class `Frontend` (see `core.frontend`) and a dataclass `Options` whose fields become flags; `load_frontend`
finds it by its name. Frontends speak to `core.server.InferenceServer` only; they do not know the engine or each other.
"""

import pkgutil
from importlib import import_module

from charonia_runtime.core.frontend import FrontendModule


def load_frontend(name: str) -> FrontendModule:
    """The frontend called `name`, one of `frontend_names()`."""
    module: FrontendModule = import_module(f"{__name__}.{name}")
    return module


def frontend_names() -> list[str]:
    """Every frontend that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
