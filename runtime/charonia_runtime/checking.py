"""`charonia check`: the faults of a model repository, each with its file and field, without serving it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.frontend import option
from charonia_runtime.engine.inspection import Fault, inspect
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from charonia_runtime.flags import Flags, Group, UsageError

_USAGE = "Usage: charonia check DIRECTORY... [options]"


@dataclass(frozen=True)
class CheckOptions:
    """What `charonia check` was told."""

    backend_directory: str = option(
        "/opt/tritonserver/backends", "Directory with backends of your own: <directory>/<backend>/model.py."
    )
    model_config_name: str = option("", "Read configs/<name>.pbtxt of a model where it exists, else its config.pbtxt.")
    disable_auto_complete_config: bool = option(
        False, "Require complete configurations; nothing is derived from model files.", switch=True
    )


_FLAGS = Flags([Group("Options", CheckOptions)])


def check(arguments: Sequence[str]) -> int:
    """Check the repositories named in `arguments`. Returns 0 when they are sound, 1 for faults, 2 for a wrong call."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(f"{_USAGE}\n{_FLAGS.help()}")
        return 0 if arguments else 2
    try:
        parsed = _FLAGS.parse(arguments, positional=True)
    except UsageError as error:
        print(f"charonia check: {error}\n{_USAGE}", file=sys.stderr)
        return 2
    if not parsed.positions:
        print(f"charonia check: no directory given\n{_USAGE}", file=sys.stderr)
        return 2
    return _check([Path(position) for position in parsed.positions], parsed.get(CheckOptions))


def _check(directories: Sequence[Path], options: CheckOptions) -> int:
    repositories = ModelRepositories(directories, options.model_config_name)
    try:
        faults = inspect(
            repositories,
            load_backend,
            backend_directory=Path(options.backend_directory),
            auto_complete=not options.disable_auto_complete_config,
        )
    except InferenceError as error:
        print(f"charonia check: {error.message}", file=sys.stderr)
        return 1
    for fault in faults:
        print(_line(fault))
    names = repositories.locate()
    faulty = {fault.model for fault in faults}
    print(f"{len(names)} models checked, {len(faulty)} with faults")
    return 1 if faults else 0


def _line(fault: Fault) -> str:
    where = f"{fault.file}: {fault.field}" if fault.field else str(fault.file)
    return f"{where}: {fault.message}"
