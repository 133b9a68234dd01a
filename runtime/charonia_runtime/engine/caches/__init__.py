"""
One module for each cache of `--cache-config <name>,…`; `load_cache` finds it by that name.

Each has a class `Cache` (see `core.cache`), made with the settings that were given for it. Caches know nothing of
models or requests: what is a key and what an entry is the business of `engine.cached_model`.
"""

import pkgutil
from importlib import import_module

from charonia_runtime.core.cache import CacheFactory, ResponseCache
from charonia_runtime.core.errors import InvalidArgumentError


def load_cache(name: str, settings: dict[str, str], directory: str) -> ResponseCache:
    """
    The cache of this name. Raises InvalidArgumentError for a name that no module of this folder has.

    `directory` is where the operator expects caches of their own (`--cache-directory`).
    """
    if name not in cache_names():
        raise InvalidArgumentError(f"unable to find 'libtritoncache_{name}.so' for cache. Searched: {directory}")
    factory: CacheFactory = import_module(f"{__name__}.{name}").Cache
    return factory(settings)


def cache_names() -> list[str]:
    """Every cache that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
