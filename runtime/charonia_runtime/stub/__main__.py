"""Start of the child process, by path and in any interpreter."""

import sys
from pathlib import Path

_SPAWNED = str(Path(__file__).resolve().parent / "spawned")


def main() -> None:
    """Arguments: descriptors of channel, lifeline, questions and segment, the segment's size and growth, a name."""
    if sys.version_info < (3, 10):  # noqa: UP036  # the interpreter is the user's
        sys.exit(f"the Python backend needs Python 3.10 or later; {sys.executable} is {sys.version.split()[0]}")
    numbers = [int(argument) for argument in sys.argv[1:7]]
    name = sys.argv[7]
    sys.path[0] = ""
    sys.argv[:] = [""]
    sys.path.append(_SPAWNED)
    from charonia_package import provide_package  # type: ignore[import-not-found]  # found through the path

    provide_package()
    from charonia_runtime.stub.worker import run

    run(name, *numbers)


if __name__ == "__main__":
    # Processes that a model spawns import the main module again if it has a file: Triton's has none.
    del globals()["__file__"]
    main()
