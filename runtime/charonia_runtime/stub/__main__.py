"""Started by path, in any interpreter: makes `charonia_runtime` importable without its neighbours."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def _provide_package() -> None:
    folder = Path(__file__).resolve().parent.parent
    spec = spec_from_file_location("charonia_runtime", folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is no package")
    package = module_from_spec(spec)
    sys.modules["charonia_runtime"] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Arguments: descriptors of channel, lifeline, questions and segment, the segment's size and growth, a name."""
    if sys.version_info < (3, 10):  # noqa: UP036  # the interpreter is the user's
        sys.exit(f"the Python backend needs Python 3.10 or later; {sys.executable} is {sys.version.split()[0]}")
    numbers = [int(argument) for argument in sys.argv[1:7]]
    name = sys.argv[7]
    sys.path[0] = ""
    sys.argv[:] = [""]
    _provide_package()
    from charonia_runtime.stub.worker import run

    run(name, *numbers)


main()
