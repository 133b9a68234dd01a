"""
Looks for faults in model repositories without serving them: everything that files alone can tell.

Model files are opened where that runs nothing of them (`BackendTraits.load_runs_no_code`), as ONNX models are; what
only a running model knows is found by loading it.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from charonia_runtime.core.agent import AgentAction
from charonia_runtime.core.backend import Backend, FileFault, ModelFiles
from charonia_runtime.core.config import ModelConfig, SpecificVersions
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.instances import resolve_instance_groups
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.strategy import STRATEGY_PARAMETER
from charonia_runtime.core.validation import refuse_unsupported, validate_states, validate_tensors
from charonia_runtime.core.versions import select_versions
from charonia_runtime.engine.agents import make_agents
from charonia_runtime.engine.ensembles.composition import check_composition
from charonia_runtime.engine.error_advice import advise_on_error
from charonia_runtime.engine.execution.batch_strategies import find_allowed_strategy
from charonia_runtime.engine.execution.initial_states import read_initial_states
from charonia_runtime.engine.lifecycle.agent_notices import AgentSession
from charonia_runtime.engine.lifecycle.backend_search import LoadBackend, find_backend
from charonia_runtime.engine.lifecycle.folder_advice import (
    advise_on_no_version,
    advise_on_repository,
    advise_on_version,
)
from charonia_runtime.engine.lifecycle.reading import ModelReader
from charonia_runtime.engine.lifecycle.repository import ModelRepositories, RepositoryEntry
from charonia_runtime.engine.options import BackendSettings
from charonia_runtime.engine.registry import DUPLICATE
from charonia_runtime.engine.schedulers.base import make_scheduler
from charonia_runtime.protocols.model_config import complete

_FIELD = re.compile(
    r"^'(?P<field>[a-z_]+[\w.\[\]\"]*)'"
    r"|^(?:model )?(?P<member>input|output) '(?P<tensor>[^']+)'"
    r"|^(?P<group>instance group) "
    r"|^model '[^']*', tensor '(?P<unfit>[^']+)'"
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a server would have: how it finds backends, what they are told, and the GPUs that it may use."""

    load_backend: LoadBackend
    backend_directory: Path
    settings: BackendSettings = field(default_factory=BackendSettings)
    gpus: tuple[int, ...] = ()
    auto_complete: bool = True
    allow_batch_strategies: bool = False
    """Whether the server runs the `batchstrategy.py` of models."""


def inspect(repositories: ModelRepositories, surroundings: Surroundings) -> list[Fault]:
    """
    The faults of every model, by model. Blocks, and imports the libraries of the backends that models name.

    Raises InferenceError when a repository itself cannot be read.
    """
    repositories.check()
    reader = ModelReader(repositories, auto_complete=surroundings.auto_complete)
    faults = [
        Fault("", repository, "", advice)
        for repository in repositories.directories
        for advice in advise_on_repository(repository)
    ]
    located = repositories.locate()
    inspections: list[_Inspection] = []
    for name, directories in located.items():
        if len(directories) > 1:
            faults += [Fault(name, directory, "", DUPLICATE) for directory in directories]
            continue
        try:
            entry = repositories.read(directories[0])
        except InferenceError as error:
            faults.append(Fault(name, directories[0], "", error.message))
            continue
        inspection = _Inspection(entry, reader, surroundings, located)
        faults += inspection.faults()
        inspections.append(inspection)
    models = {one.config.name: one.config for one in inspections if one.config is not None}
    for inspection in inspections:
        faults += inspection.composition_faults(models)
    return sorted(faults, key=lambda fault: fault.model)


class _Inspection:
    """One model under inspection."""

    def __init__(
        self,
        entry: RepositoryEntry,
        reader: ModelReader,
        surroundings: Surroundings,
        models: Container[str],
    ) -> None:
        """`models` are those of all repositories: what an ensemble may be made of."""
        self.config: ModelConfig | None = None
        """The model's configuration once it is read, completed as far as its files tell."""
        self._entry = entry
        self._reader = reader
        self._surroundings = surroundings
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
        self.config = config
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
            message = f"at least one version must be available under the version policy of model '{name}'. "
            message += advise_on_no_version(self._entry)
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

    def composition_faults(self, models: Mapping[str, ModelConfig]) -> Iterator[Fault]:
        """What an ensemble's steps say wrongly of their models, as far as the `models`' tensors are known."""
        config = self.config
        if config is None or not isinstance(config.scheduling, Ensemble):
            return
        known = {name: model for name, model in models.items() if model.inputs and model.outputs}
        steps = tuple(step for step in config.scheduling.steps if step.model_name in known)
        try:
            check_composition(config, replace(config.scheduling, steps=steps), known)
        except InferenceError as error:
            yield self._in_config(error.message, "ensemble_scheduling.step")

    def _file_faults(self, config: ModelConfig) -> Iterator[Fault]:
        entry, surroundings = self._entry, self._surroundings
        for version in select_versions(config.version_policy, entry.versions):
            directory = entry.version_directory(version)
            files = ModelFiles(
                entry.name,
                version,
                entry.directory,
                directory,
                surroundings.settings.of(config.backend),
                surroundings.gpus,
                backend_directory=surroundings.backend_directory,
            )
            try:
                backend_class, config = find_backend(
                    config, files, surroundings.backend_directory, surroundings.load_backend
                )
            except InferenceError as error:
                yield self._in_config(error.message, "runtime" if config.runtime else "backend")
                break
            found = [*self._version_file_faults(config, directory)]
            yield from found or self._backend_faults(config, files, backend_class)
            try:
                find_allowed_strategy(config, files, allowed=surroundings.allow_batch_strategies)
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

    def _version_file_faults(self, config: ModelConfig, directory: Path) -> Iterator[Fault]:
        filename, advice = config.default_model_filename, advise_on_version(directory, config)
        if filename and not (directory / filename).exists():
            message = "the model's file is missing"
            message += f": {advice}" if advice else ""
            yield Fault(self._entry.name, directory / filename, "default_model_filename", message)
        elif advice:
            yield Fault(self._entry.name, directory, "", advice)

    def _backend_faults(self, config: ModelConfig, files: ModelFiles, backend_class: type[Backend]) -> Iterator[Fault]:
        """What the backend itself says of a version: its package, its GPUs, its files and, where it may, the model."""
        look: Callable[[ModelFiles, ModelConfig], Iterable[FileFault]] | None
        look = getattr(backend_class, "inspect_files", None)
        try:
            for found in look(files, config) if look is not None else ():
                message = found.message + advise_on_error(found.message)
                yield Fault(self._entry.name, found.path, "", message)
            backend = backend_class(files)
            try:
                self.config = self._prepared(config, files, backend)
            finally:
                backend.close()
        except InferenceError as error:
            yield self._in_config(error.message)
        except Exception as error:  # noqa: BLE001 - whatever a library raises keeps the model from being served
            yield self._in_config(str(error) or type(error).__name__)

    def _prepared(self, config: ModelConfig, files: ModelFiles, backend: Backend) -> ModelConfig:
        """The configuration as instances would get it, after `backend` has read its file if that runs nothing."""
        # Libraries of custom operators run as they are loaded.
        reads = backend.traits.load_runs_no_code and not config.op_library_filenames
        if reads and self._surroundings.auto_complete:
            config = complete(backend.auto_complete(config))
            validate_tensors(config)
        config = resolve_instance_groups(config, backend.traits, files.gpus)
        if reads:
            backend.load(complete(config))
        return config

    def _in_config(self, message: str, field: str = "") -> Fault:
        advice = advise_on_error(message)
        return Fault(self._entry.name, self._entry.config_path, field or _field_of(message), message + advice)


def _field_of(message: str) -> str:
    """The field that a text of the validation is about, as far as the text tells."""
    found = _FIELD.match(message)
    if found is None:
        return ""
    if found["tensor"]:
        return f'{found["member"]} "{found["tensor"]}"'
    if found["unfit"]:
        return f'dims of "{found["unfit"]}"'
    return str(found["field"] or found["scheduling"] or "instance_group")
