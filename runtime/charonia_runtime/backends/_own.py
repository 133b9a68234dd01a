"""
Backends that are not ours: a folder of the operator's, or a package that is installed beside Charonia.

    <backend directory>/<name>/backend.py           a class `Backend` (see `core.backend`); it may import its neighbours
                                                    (`from . import weights`)
    [project.entry-points."charonia.backends"]      <name> = "package.module:Backend" in a package's pyproject.toml
"""

import sys
import threading
from importlib import import_module, invalidate_caches
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from charonia_runtime.core.backend import Backend, BackendTraits
from charonia_runtime.core.errors import InternalError

ENTRY_POINTS = "charonia.backends"
FILE = "backend.py"
_importing = threading.Lock()
_PARTS = ("auto_complete", "load", "create_instance", "close")


def in_folder(name: str, directory: Path) -> type[Backend] | None:
    """
    The class in `<directory>/<name>/backend.py`, None where there is no such file.

    Raises InternalError when the file cannot be run or holds no backend.
    """
    folder = directory / name
    if name in {"", ".", ".."} or "/" in name or not (folder / FILE).is_file():
        return None
    try:
        with _importing:
            module = import_module(".backend", _package(name, folder))
    except Exception as error:
        raise InternalError(f"unable to load backend '{name}' from '{folder / FILE}': {_cause(error)}") from error
    return _checked(getattr(module, "Backend", None), name, f"'{folder / FILE}'")


def installed(name: str) -> type[Backend] | None:
    """
    The class that an installed package offers as backend `name`, None where none does.

    Raises InternalError when several packages do, or when the package's code fails or holds no backend.
    """
    offers = tuple(entry_points(group=ENTRY_POINTS, name=name))
    if not offers:
        return None
    if len(offers) > 1:
        packages = ", ".join(sorted(offer.dist.name if offer.dist else offer.value for offer in offers))
        raise InternalError(f"unable to load backend '{name}': several installed packages offer it: {packages}")
    (offer,) = offers
    try:
        loaded = offer.load()
    except Exception as error:
        raise InternalError(f"unable to load backend '{name}' from '{offer.value}': {_cause(error)}") from error
    return _checked(loaded, name, f"entry point '{offer.value}'")


def _package(name: str, folder: Path) -> str:
    """A package made of the folder, so that files in it can import each other, and two folders their equals."""
    package = f"charonia_backend_{name.replace('.', '%2e')}"
    known = sys.modules.get(package)
    if known is None or known.__path__ != [str(folder)]:
        for module in [key for key in list(sys.modules) if key == package or key.startswith(f"{package}.")]:
            del sys.modules[module]
        made = ModuleType(package, f"The backend in {folder}.")
        made.__path__ = [str(folder)]
        sys.modules[package] = made
        invalidate_caches()
    return package


def _checked(candidate: Any, name: str, source: str) -> type[Backend]:
    missing = [part for part in _PARTS if not callable(getattr(candidate, part, None))]
    if not isinstance(candidate, type) or missing:
        raise InternalError(
            f"unable to load backend '{name}': {source} holds no class 'Backend' with the methods {', '.join(_PARTS)}"
        )
    if not isinstance(getattr(candidate, "traits", None), BackendTraits):
        raise InternalError(f"unable to load backend '{name}': the 'Backend' of {source} has no BackendTraits 'traits'")
    return candidate


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__
