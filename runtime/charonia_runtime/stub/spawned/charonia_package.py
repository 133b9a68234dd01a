"""The package `charonia_runtime` made importable by its place, in an interpreter that has nothing of ours installed."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def provide_package() -> None:
    """Import `charonia_runtime` from the folder that this file lies in, unless it is imported already."""
    if "charonia_runtime" in sys.modules:
        return
    folder = Path(__file__).resolve().parents[2]
    spec = spec_from_file_location("charonia_runtime", folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is no package")
    package = module_from_spec(spec)
    sys.modules["charonia_runtime"] = package
    spec.loader.exec_module(package)
