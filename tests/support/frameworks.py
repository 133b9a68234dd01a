"""The frameworks that tests use where they are installed: which ones there are, and what is missing."""

import importlib.util
import re
from importlib.metadata import packages_distributions, version
from pathlib import Path

CASES = Path(__file__).with_name("backend_cases")
_LIBRARY = re.compile(r'^LIBRARY = "(.+)"$', re.MULTILINE)
_TEACHERS = ("xgboost", "lightgbm")
"""They make models for tests of the fil backend, which reads their files without them."""


def case_names() -> list[str]:
    """Every backend with a module in `backend_cases`."""
    return sorted(path.stem for path in CASES.glob("*.py"))


def libraries() -> list[str]:
    """Every module that tests of backends need, by its import name."""
    needed = {library for path in CASES.glob("*.py") for library in _LIBRARY.findall(path.read_text())}
    return sorted(needed.union(_TEACHERS))


def is_installed(library: str) -> bool:
    """Whether the module can be found. Does not import it, but for the package that it lies in."""
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def installed() -> str:
    """Those that there are, with their versions, in one line."""
    known = packages_distributions()
    return ", ".join(
        " ".join([library, *sorted({version(name) for name in known.get(library, ())})])
        for library in libraries()
        if is_installed(library)
    )


def missing() -> list[str]:
    return [library for library in libraries() if not is_installed(library)]
