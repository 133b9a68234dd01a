"""
Looks for faults in model repositories without serving them: everything that files alone can tell.

What only a loaded model knows (whether its tensors are those of the configuration) is found by serving it.
"""

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from charonia_runtime.core.agent import AgentAction
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import ModelConfig, SpecificVersions
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.strategy import STRATEGY_PARAMETER
from charonia_runtime.core.validation import refuse_unsupported, validate_states, validate_tensors
from charonia_runtime.core.versions import select_versions
from charonia_runtime.engine.agents import make_agents
from charonia_runtime.engine.execution.batch_strategies import find_strategy
from charonia_runtime.engine.execution.initial_states import read_initial_states
from charonia_runtime.engine.lifecycle.agent_notices import AgentSession
from charonia_runtime.engine.lifecycle.backend_search import LoadBackend, find_backend
from charonia_runtime.engine.lifecycle.reading import ModelReader
from charonia_runtime.engine.lifecycle.repository import ModelRepositories, RepositoryEntry
from charonia_runtime.engine.registry import DUPLICATE
from charonia_runtime.engine.schedulers.base import make_scheduler

_FIELD = re.compile(
    r"^'(?P<field>[a-z_]+[\w.\[\]\"]*)'"
    r"|^(?:model )?(?P<member>input|output) '(?P<tensor>[^']+)'"
    r"|^model '[^']*': (?P<scheduling>[a-z]+_(?:batching|scheduling)) "
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that keeps a model from being served as its files say."""

    model: str
    file: Path
    field: str
    """The configuration's field; empty where the fault is the file's as a whole."""
    message: str


def inspect(
    repositories: ModelRepositories, load_backend: LoadBackend, *, backend_directory: Path, auto_complete: bool = True
) -> list[Fault]:
    """
    The faults of every model, by model. Blocks, and imports the libraries of the backends that models name.

    Raises InferenceError when a repository itself cannot be read.
    """
    repositories.check()
    reader = ModelReader(repositories, auto_complete=auto_complete)
    faults: list[Fault] = []
    located = repositories.locate()
    for name, directories in located.items():
        if len(directories) > 1:
            faults += [Fault(name, directory, "", DUPLICATE) for directory in directories]
            continue
        try:
            entry = repositories.read(directories[0])
        except InferenceError as error:
            faults.append(Fault(name, directories[0], "", error.message))
            continue
        faults += _Inspection(entry, reader, load_backend, backend_directory, located).faults()
    return faults


class _Inspection:
    """One model under inspection."""

    def __init__(
        self,
        entry: RepositoryEntry,
        reader: ModelReader,
        load_backend: LoadBackend,
        backend_directory: Path,
        models: Container[str],
    ) -> None:
        """`models` are those of all repositories: what an ensemble may be made of."""
        self._entry = entry
        self._reader = reader
        self._load_backend = load_backend
        self._backend_directory = backend_directory
        self._models = models

    def faults(self) -> Iterator[Fault]:
        entry = self._entry
        for message in entry.ignored:
            yield Fault(entry.name, entry.directory, "", message)
        try:
            config = self._reader.configure(entry)
        except InferenceError as error:
            yield self._in_config(error.message)
            return
        yield from self._agent_faults(config)
        yield from self._version_faults(config)
        yield from self._rule_faults(config)
        if isinstance(config.scheduling, Ensemble):
            yield from self._step_faults(config.scheduling)
        else:
            yield from self._file_faults(config)

    def _agent_faults(self, config: ModelConfig) -> Iterator[Fault]:
        try:
            session = AgentSession(make_agents(config.repository_agents), self._entry.directory)
            session.load()
        except InferenceError as error:
            yield self._in_config(error.message, "model_repository_agents")
        else:
            session.tell(AgentAction.LOAD_FAIL)  # it will not be loaded

    def _version_faults(self, config: ModelConfig) -> Iterator[Fault]:
        name, policy = self._entry.name, config.version_policy
        if isinstance(policy, SpecificVersions):
            for version in policy.versions:
                if version not in self._entry.versions:
                    message = (
                        f"version {version} is specified for model '{name}', but the version directory is not present"
                    )
                    yield self._in_config(message, "version_policy.specific.versions")
        if not select_versions(policy, self._entry.versions):
            message = f"at least one version must be available under the version policy of model '{name}'"
            yield Fault(name, self._entry.directory, "version_policy", message)

    def _rule_faults(self, config: ModelConfig) -> Iterator[Fault]:
        """What is refused when the model is loaded. Tensors that a backend may still complete are left to it."""
        rules: list[Callable[[ModelConfig], object]] = [refuse_unsupported, validate_states]
        if not isinstance(config.scheduling, Ensemble):
            rules.append(make_scheduler)
        if config.inputs and config.outputs:
            rules.insert(0, validate_tensors)
        for rule in rules:
            try:
                rule(config)
            except InferenceError as error:
                yield self._in_config(error.message)

    def _step_faults(self, ensemble: Ensemble) -> Iterator[Fault]:
        for index, step in enumerate(ensemble.steps):
            if step.model_name not in self._models:
                message = f"model '{step.model_name}' is in none of the repositories"
                yield self._in_config(message, f"ensemble_scheduling.step[{index}].model_name")

    def _file_faults(self, config: ModelConfig) -> Iterator[Fault]:
        entry = self._entry
        for version in select_versions(config.version_policy, entry.versions):
            directory = entry.version_directory(version)
            files = ModelFiles(
                entry.name, version, entry.directory, directory, backend_directory=self._backend_directory
            )
            try:
                find_backend(config, files, self._backend_directory, self._load_backend)
            except InferenceError as error:
                yield self._in_config(error.message, "runtime" if config.runtime else "backend")
                break
            filename = config.default_model_filename
            if filename and not (directory / filename).exists():
                yield Fault(entry.name, directory / filename, "default_model_filename", "the model's file is missing")
            try:
                find_strategy(config, files)
            except InferenceError as error:
                yield self._in_config(error.message, f'parameters["{STRATEGY_PARAMETER}"]')
        try:
            read_initial_states(config, entry.directory)
        except InferenceError as error:
            yield self._in_config(error.message, "sequence_batching.state.initial_state")
        for index, output in enumerate(config.outputs):
            label_file = entry.directory / output.label_filename
            if output.label_filename and not label_file.is_file():
                yield self._in_config(
                    f"failed to open text file for read {label_file}", f"output[{index}].label_filename"
                )
        for index, sample in enumerate(config.warmup):
            for name, given in sample.inputs.items():
                path = entry.directory / "warmup" / given.data if isinstance(given.data, str) else None
                if path is not None and not path.is_file():
                    field = f'model_warmup[{index}].inputs["{name}"].input_data_file'
                    yield self._in_config(f"failed to open text file for read {path}", field)

    def _in_config(self, message: str, field: str = "") -> Fault:
        return Fault(self._entry.name, self._entry.config_path, field or _field_of(message), message)


def _field_of(message: str) -> str:
    """The field that a text of the validation is about, as far as the text tells."""
    found = _FIELD.match(message)
    if found is None:
        return ""
    if found["tensor"]:
        return f'{found["member"]} "{found["tensor"]}"'
    return str(found["field"] or found["scheduling"])
