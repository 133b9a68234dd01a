"""
One module (or package) for each protocol: sockets, routes, one table from error codes to statuses, its own flags.

Each has a class `Frontend` (see `core.frontend`) and a dataclass `Options` whose fields become flags; `load_frontend`
finds it by its name. Frontends speak to `core.server.InferenceServer` only; they do not know the engine or each other.
"""

import pkgutil
from importlib import import_module

from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.core.frontend import Frontend, FrontendModule


def load_frontend(name: str) -> FrontendModule:
    """The frontend called `name`, one of `frontend_names()`."""
    module: FrontendModule = import_module(f"{__name__}.{name}")
    return module


async def start_frontend(frontend: Frontend) -> None:
    """Start it. Raises InferenceError; UnavailableError names the service."""
    try:
        await frontend.start()
    except UnavailableError as error:
        raise cannot_start(frontend.name, error) from error


def cannot_start(name: str, error: UnavailableError) -> UnavailableError:
    """What is said of a service whose address cannot be had."""
    return UnavailableError(f"failed to start {name} service: {error.code.value} - {error.message}")


def frontend_names() -> list[str]:
    """Every frontend that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
