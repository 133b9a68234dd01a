"""
Completes the configurations of model repositories as loading does, without loading: every backend reads its file.

For those who want to write a `config.pbtxt`, or to see what a model without one is served as.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.versions import select_versions
from charonia_runtime.engine.lifecycle.backend_search import LoadBackend, find_backend
from charonia_runtime.engine.lifecycle.reading import ModelReader
from charonia_runtime.engine.lifecycle.repository import ModelRepositories, RepositoryEntry
from charonia_runtime.engine.options import BackendSettings
from charonia_runtime.protocols.model_config import complete, render_text


@dataclass(frozen=True, slots=True)
class CompletedModel:
    """One model: the text that its `config.pbtxt` may have, with what is `missing` in it, or why there is none."""

    name: str
    config_path: Path
    text: str = ""
    missing: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """How configurations are completed: what the command line says to backends, and which GPUs may be used."""

    repositories: ModelRepositories
    load_backend: LoadBackend
    backend_directory: Path
    settings: BackendSettings
    gpus: tuple[int, ...] = ()
    auto_complete: bool = True
    """Whether backends complete anything; without it, configurations are what their files make of them."""

    def models(self) -> Iterator[CompletedModel]:
        """Every model by name, as its newest version makes it. Blocks, and opens model files."""
        reader = ModelReader(self.repositories, auto_complete=self.auto_complete)
        for name, directories in self.repositories.locate().items():
            for directory in directories:
                yield self._model(name, directory, reader)

    def _model(self, name: str, directory: Path, reader: ModelReader) -> CompletedModel:
        path = directory / "config.pbtxt"
        try:
            entry = self.repositories.read(directory)
            path = entry.config_path
            config = self._completed(reader.configure(entry), entry)
        except InferenceError as error:
            return CompletedModel(name, path, error=error.message)
        missing = tuple(field for field, specs in (("input", config.inputs), ("output", config.outputs)) if not specs)
        return CompletedModel(name, path, render_text(config), missing)

    def _completed(self, config: ModelConfig, entry: RepositoryEntry) -> ModelConfig:
        versions = select_versions(config.version_policy, entry.versions)
        if isinstance(config.scheduling, Ensemble) or not versions or not self.auto_complete:
            return config
        files = ModelFiles(
            entry.name,
            versions[-1],
            entry.directory,
            entry.version_directory(versions[-1]),
            self.settings.of(config.backend),
            self.gpus,
            backend_directory=self.backend_directory,
        )
        backend_class, config = find_backend(config, files, self.backend_directory, self.load_backend)
        try:
            backend = backend_class(files)
            try:
                return complete(backend.auto_complete(config))
            finally:
                backend.close()
        except InferenceError:
            raise
        except Exception as error:
            raise InternalError(str(error) or type(error).__name__) from error
