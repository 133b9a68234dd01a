"""
One module for each URI scheme; `open_store` finds it when a repository asks, so a library loads only then.

Each module has a class `Store` (see `storage.objects`). Schemes do not know each other or what is done with a store.
"""

import pkgutil
from importlib import import_module

from charonia_runtime.installation import install_command
from charonia_runtime.storage.access import Access
from charonia_runtime.storage.failures import LocationError
from charonia_runtime.storage.location import Location
from charonia_runtime.storage.objects import Store

_EXTRAS = {"gs": "gcs", "as": "azure"}
"""Scheme → the extra that installs its library, where the two have different names."""


def open_store(location: Location, access: Access) -> Store:
    """The store of a repository. Raises LocationError for a scheme that no module of this folder has."""
    scheme = location.scheme
    if scheme not in scheme_names():
        known = ", ".join(f"{name}://" for name in scheme_names())
        raise LocationError(f"{scheme}:// file-system not supported: expected {known} or a path")
    try:
        module = import_module(f"{__name__}.{scheme}")
    except ModuleNotFoundError as error:
        command = install_command(_EXTRAS.get(scheme, scheme))
        raise LocationError(f"{scheme}:// needs the package {error.name}: {command}") from error
    store: Store = module.Store(location, access)
    return store


def scheme_names() -> list[str]:
    """Every scheme that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
