"""
`charonia check`: the faults of a model repository, each with its file and field, without serving it.

With `--print-config` also the configurations that models are served with, complete: standard output then holds them
and nothing else, and each may be written to the model's `config.pbtxt` as it is. With `--load` every model that looks
sound is loaded as well (`trial`). With `--json` the report is one JSON document.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.engine.completion import CompletedModel, Completion
from charonia_runtime.engine.error_advice import advise_on_error
from charonia_runtime.engine.inspection import Fault, Surroundings, inspect
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.environment import Environment
from charonia_runtime.flags import Flags, Group, UsageError
from charonia_runtime.trial import Trial, TrialResult, available_mebibytes, try_model

_USAGE = "Usage: charonia check DIRECTORY... [options]"
_EXIT_CODES = """
Exit codes:
  0    every model looks as if it can be served; with --load, every model loads
  1    there are faults, or a repository cannot be read
  2    the command line is wrong
"""


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
    allow_batch_strategies: bool = option(
        False, "Accept models that bring a batchstrategy.py, as for charonia serve. Without it, they are faults."
    )
    print_config: bool = option(
        False,
        "Print each model's configuration as it is served: with what its backend reads in the model file. Faults go to "
        "standard error.",
        switch=True,
    )

    load: bool = option(
        False,
        "Load every model without faults as well, each in a process of its own, and tell what it took. Runs the code "
        "of the models.",
        switch=True,
    )
    load_memory_limit: int = option(
        0, "MiB that each process of a load may take; 0 is what the machine or the container has left."
    )
    load_timeout_secs: int = option(600, "Seconds that the load of one model may take.")
    json: bool = option(False, "Report as JSON: models, faults and, with --load, loads.", switch=True)

    def __post_init__(self) -> None:
        for name, least in (("load_memory_limit", 0), ("load_timeout_secs", 1)):
            value, flag = getattr(self, name), name.replace("_", "-")
            if value < least:
                raise OptionError(flag, f"invalid value for --{flag}: expected an integer >= {least}, got {value}")

    @property
    def engine(self) -> EngineOptions:
        """What the engine would be told. Raises OptionError for a setting that is malformed."""
        return EngineOptions(backend_directory=self.backend_directory, backend_config=self.backend_config)


_FLAGS = Flags([Group("Options", CheckOptions)])


def check(arguments: Sequence[str]) -> int:
    """Check the repositories named in `arguments`. Returns 0 when they are sound, 1 for faults, 2 for a wrong call."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(f"{_USAGE}\n{_FLAGS.help()}\n{_EXIT_CODES}")
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
        surroundings = Surroundings(load, own, settings, gpus, completes, options.allow_batch_strategies)
        faults = inspect(repositories, surroundings)
    except InferenceError as error:
        print(f"charonia check: {error.message}", file=sys.stderr)
        return 1
    if options.print_config:
        faults += _print_configurations(Completion(repositories, load, own, settings, gpus, completes), faults)
    names = list(repositories.locate())
    faulty = {fault.model for fault in faults}
    loads = _load([name for name in names if name not in faulty], directories, options) if options.load else []
    for tried in loads:
        if tried.error:
            (directory, *_) = repositories.find(tried.model)
            message = f"it does not load: {tried.error}{advise_on_error(tried.error)}"
            faults.append(Fault(tried.model, directory, "", message))
    report = _json_report if options.json else _text_report
    print(report(names, faults, loads), file=sys.stderr if options.print_config else sys.stdout)
    return 1 if faults else 0


def _load(names: Sequence[str], directories: Sequence[Path], options: CheckOptions) -> list[TrialResult]:
    """Load the models one after the other: together they might need more memory than there is."""
    limit = options.load_memory_limit or available_mebibytes()
    return [
        try_model(
            Trial(
                model=name,
                directories=tuple(map(str, directories)),
                backend_directory=options.backend_directory,
                backend_config=options.backend_config,
                model_config_name=options.model_config_name,
                auto_complete=not options.disable_auto_complete_config,
                allow_batch_strategies=options.allow_batch_strategies,
                limit_mebibytes=limit,
            ),
            options.load_timeout_secs,
        )
        for name in names
    ]


def _text_report(names: Sequence[str], faults: Sequence[Fault], loads: Sequence[TrialResult]) -> str:
    loaded = [load for load in loads if not load.error]
    faulty = {fault.model for fault in faults if fault.model}
    lines = [
        *(_line(fault) for fault in faults),
        *(f"{load.model}: loaded in {load.seconds:.1f} s, {load.mebibytes} MiB" for load in loaded),
        f"{len(names)} models checked, {len(faulty)} with faults",
    ]
    return "\n".join(lines)


def _json_report(names: Sequence[str], faults: Sequence[Fault], loads: Sequence[TrialResult]) -> str:
    """The report as a document with the same members whatever was found; `file` and `field` may be empty texts."""
    document = {
        "models": list(names),
        "faults": [{**asdict(fault), "file": str(fault.file)} for fault in faults],
        "loads": [asdict(load) for load in loads],
    }
    return json.dumps(document, indent=2)


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
    return f"{where}: {' '.join(fault.message.split())}"
