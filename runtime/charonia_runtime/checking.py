"""
`charonia check`: the faults of a model repository, each with its file and field, without serving it.

With `--print-config` also the configurations that models are served with, complete: standard output then holds them
and nothing else, and each may be written to the model's `config.pbtxt` as it is.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.frontend import option
from charonia_runtime.engine.completion import CompletedModel, Completion
from charonia_runtime.engine.inspection import Fault, Surroundings, inspect
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.environment import Environment
from charonia_runtime.flags import Flags, Group, UsageError

_USAGE = "Usage: charonia check DIRECTORY... [options]"


@dataclass(frozen=True)
class CheckOptions:
    """What `charonia check` was told."""

    backend_directory: str = option(
        "/opt/tritonserver/backends", "Directory with backends of your own, as for charonia serve."
    )
    backend_config: tuple[str, ...] = option(
        (), "Setting of one backend, or of all, as for charonia serve.", metavar="<backend>,<setting>=<value>"
    )
    model_config_name: str = option("", "Read configs/<name>.pbtxt of a model where it exists, else its config.pbtxt.")
    disable_auto_complete_config: bool = option(
        False, "Require complete configurations; nothing is derived from model files.", switch=True
    )
    print_config: bool = option(
        False,
        "Print each model's configuration as it is served: with what its backend reads in the model file. Faults go to "
        "standard error.",
        switch=True,
    )

    @property
    def engine(self) -> EngineOptions:
        """What the engine would be told. Raises OptionError for a setting that is malformed."""
        return EngineOptions(backend_directory=self.backend_directory, backend_config=self.backend_config)


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
        settings = options.engine.backend_settings
        own, completes = Path(options.backend_directory), not options.disable_auto_complete_config
        load = partial(load_backend, directory=own)
        gpus = Environment.read(os.environ).gpus
        faults = inspect(repositories, Surroundings(load, own, settings, gpus, completes))
    except InferenceError as error:
        print(f"charonia check: {error.message}", file=sys.stderr)
        return 1
    if options.print_config:
        faults += _print_configurations(Completion(repositories, load, own, settings, gpus, completes), faults)
    reports = sys.stderr if options.print_config else sys.stdout
    for fault in faults:
        print(_line(fault), file=reports)
    names = repositories.locate()
    faulty = {fault.model for fault in faults}
    print(f"{len(names)} models checked, {len(faulty)} with faults", file=reports)
    return 1 if faults else 0


def _print_configurations(completion: Completion, known: Sequence[Fault]) -> list[Fault]:
    """Print those that there are; gives what stands in the way of the others, unless that is `known`."""
    said = {(fault.model, fault.message) for fault in known}
    found: list[Fault] = []
    for model in completion.models():
        if model.text:
            print(_commented(model), flush=True)
        elif (model.name, model.error) not in said:
            found.append(Fault(model.name, model.config_path, "", model.error))
    return found


def _commented(model: CompletedModel) -> str:
    missing = f"# add {' and '.join(model.missing)}, which the model does not tell\n" if model.missing else ""
    return f"# {model.config_path}\n{missing}{model.text}"


def _line(fault: Fault) -> str:
    where = f"{fault.file}: {fault.field}" if fault.field else str(fault.file)
    return f"{where}: {fault.message}"
