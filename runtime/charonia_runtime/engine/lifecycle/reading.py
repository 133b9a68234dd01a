"""
Reads one model, from its repository or from a load request, up to the point where its files must be opened.

Blocks on the file system; the engine calls it in an executor. What fails here is Triton's poll-time class of errors:
clients get one generic text, the cause goes to the log.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from charonia_runtime.core.config import ModelConfig, SpecificVersions
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.identifiers import model_identifier
from charonia_runtime.core.platforms import derive_backend
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.validation import validate_config, validate_tensors
from charonia_runtime.core.versions import select_versions
from charonia_runtime.engine.agents import require_agents
from charonia_runtime.engine.lifecycle.folder_advice import advise_on_model
from charonia_runtime.engine.lifecycle.overrides import OverrideDirectory
from charonia_runtime.engine.lifecycle.repository import ModelRepositories, RepositoryEntry, is_model_name
from charonia_runtime.protocols.model_config import complete, parse_json, parse_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Override:
    """What a load request gives instead of the repository's files: a configuration as JSON, and perhaps every file."""

    config: str | None = None
    files: Mapping[str, bytes] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PolledModel:
    """A model that may be loaded: its files, its configuration before any backend saw it, the versions to serve."""

    entry: RepositoryEntry
    config: ModelConfig
    versions: tuple[int, ...]
    """Those that the version policy selects, ascending."""
    overridden: bool = False
    """Whether the configuration came with the load request."""
    override_directory: OverrideDirectory | None = None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def identifier(self) -> str:
        """What the server calls the model."""
        return model_identifier(self.entry.namespace, self.entry.name)


class PollError(Exception):
    """A model could not be read. The text is the log line."""


class NoSuchModelError(PollError):
    """No repository has the model."""


class ModelReader:
    """
    Reads models of `repositories`; `auto_complete` says whether backends may complete configurations later.

    `agent_directory` is where the operator expects repository agents of their own.
    """

    def __init__(
        self,
        repositories: ModelRepositories,
        *,
        auto_complete: bool = True,
        agent_directory: str = "/opt/tritonserver/repoagents",
    ) -> None:
        self._repositories = repositories
        self._auto_complete = auto_complete
        self._agent_directory = agent_directory

    def read(self, identifier: str, override: Override | None = None) -> PolledModel:
        """Read a model. Files of a load request make a model outside of all repositories. Raises PollError."""
        if override is not None and override.files:
            return self._read_override(identifier, override)
        directories = self._repositories.find(identifier)
        if not directories:
            raise NoSuchModelError(f"failed to poll model '{identifier}': model not found in any model repository.")
        if len(directories) > 1:
            raise PollError(f"failed to poll model '{identifier}': not unique across all model repositories")
        try:
            entry = self._repositories.read(directories[0])
            config = self.configure(entry, None if override is None else override.config)
        except InferenceError as error:
            raise PollError(f"Poll failed for model directory '{identifier}': {error.message}") from error
        return PolledModel(
            entry, config, select_versions(config.version_policy, entry.versions), overridden=override is not None
        )

    def configure(self, entry: RepositoryEntry, override: str | None = None) -> ModelConfig:
        """
        The model's configuration, with everything filled in that its file names tell.

        `override` is JSON that replaces the configuration file. Raises InferenceError.
        """
        given = self._read_config(entry) if override is None else parse_json(override)
        require_agents(given.repository_agents, self._agent_directory)
        named = given if given.name else replace(given, name=entry.name)
        try:
            derived = derive_backend(named, entry.first_version_files)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} {advise_on_model(entry)}") from error
        config = complete(self._with_namespaces(derived, entry.namespace))
        validate_config(config, entry.name)
        if not self._auto_complete:
            validate_tensors(config)
        return config

    def _with_namespaces(self, config: ModelConfig, own: str) -> ModelConfig:
        """The configuration of an ensemble whose steps say which repository's models they mean."""
        scheduling = config.scheduling
        if not isinstance(scheduling, Ensemble):
            return config
        steps = tuple(
            replace(step, model_namespace=self._repositories.namespace_of(step.model_name, own))
            for step in scheduling.steps
        )
        return replace(config, scheduling=replace(scheduling, steps=steps))

    def _read_config(self, entry: RepositoryEntry) -> ModelConfig:
        path = entry.config_path
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            if not self._auto_complete:
                raise InternalError(f"failed to open text file for read {path}: No such file or directory") from None
            content = b""
        except OSError as error:
            raise InternalError(f"failed to open text file for read {path}: {error.strerror}") from error
        return parse_text(content, str(path))

    def _read_override(self, name: str, override: Override) -> PolledModel:
        if override.config is None:
            raise PollError("Load parameter 'config' must be specified for model file override")
        if not is_model_name(name):
            raise PollError(f"failed to poll model '{name}': it cannot be the name of a directory")
        try:
            directory = OverrideDirectory(name, override.files or {})
        except InferenceError as error:
            raise PollError(error.message) from error
        try:
            entry = self._repositories.read(directory.path)
            config = self.configure(entry, override.config)
        except InferenceError as error:
            directory.remove()
            raise PollError(f"Poll failed for model directory '{name}': {error.message}") from error
        versions = select_versions(config.version_policy, entry.versions)
        return PolledModel(entry, config, versions, overridden=True, override_directory=directory)


def log_passed_over(polled: PolledModel) -> None:
    """Say which directories and configured versions are not served, and why."""
    for message in polled.entry.ignored:
        logger.warning(message)
    policy = polled.config.version_policy
    if isinstance(policy, SpecificVersions):
        for version in policy.versions:
            if version not in polled.entry.versions:
                logger.error(
                    "version %d is specified for model '%s', but the version directory is not present",
                    version,
                    polled.identifier,
                )
