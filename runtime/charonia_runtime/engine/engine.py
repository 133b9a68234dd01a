"""`Engine`: the inference server inside this process."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from charonia_runtime import __version__
from charonia_runtime.core.answers import AnswerCounts
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.cache import ResponseCache
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.custom_metrics import CustomMetrics
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.server import (
    IndexEntry,
    ModelMetadata,
    ServedModel,
    ServerMetadata,
    Settings,
    SharedMemory,
    TensorMetadata,
    VersionStatistics,
)
from charonia_runtime.core.statistics import FIRST_RESPONSE_BOUNDS_MS, FIRST_RESPONSE_FAMILY
from charonia_runtime.core.tracing import NO_TRACING, Tracing
from charonia_runtime.engine.ensembles.binding import bind
from charonia_runtime.engine.ensembles.model import EnsembleModel
from charonia_runtime.engine.execution.admission import MemoryResolver
from charonia_runtime.engine.execution.cached_model import CachedModel
from charonia_runtime.engine.execution.copies import LoadCopy, ModelCopy
from charonia_runtime.engine.execution.timed_model import TimedModel
from charonia_runtime.engine.execution.walked_model import WalkedModel
from charonia_runtime.engine.extensions import EXTENSIONS
from charonia_runtime.engine.held_regions import HoldRegions, hold_nothing
from charonia_runtime.engine.inner_server import InnerServer
from charonia_runtime.engine.lifecycle.backend_search import LoadBackend, find_backend
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.folder_advice import advise_on_repository
from charonia_runtime.engine.lifecycle.loading import ModelLoader
from charonia_runtime.engine.lifecycle.polling import RepositoryPoller, Wait
from charonia_runtime.engine.lifecycle.reading import ModelReader, Override, PolledModel
from charonia_runtime.engine.lifecycle.repository import ModelRepositories, is_model_name
from charonia_runtime.engine.options import ControlMode, EngineOptions
from charonia_runtime.engine.registry import ModelRegistry
from charonia_runtime.engine.shutdown import finish_sequences, stop_models
from charonia_runtime.logs import table
from charonia_runtime.thread_pools import LOADING

logger = logging.getLogger(__name__)

MakeSettings = Callable[[Callable[[str], bool]], Settings]
"""Makes the settings, given a function that tells whether a model serves."""


class Engine:
    """
    Serves the models of its repositories. Implements `core.server.MirroredServer`.

    Everything happens on the event loop that `start` runs on; files and models are opened in other threads.
    """

    def __init__(
        self,
        options: EngineOptions,
        load_backend: LoadBackend,
        load_copy: LoadCopy,
        *,
        shared_memory: SharedMemory,
        settings: MakeSettings,
        resolve_memory: MemoryResolver | None = None,
        hold_regions: HoldRegions = hold_nothing,
        cache: ResponseCache | None = None,
        first_responses: bool = False,
        tracing: Tracing = NO_TRACING,
        agent_directory: str = "/opt/tritonserver/repoagents",
        gpus: tuple[int, ...] = (),
        refresh: Callable[[], None] | None = None,
        namespaces: Sequence[str] = (),
    ) -> None:
        """
        `load_copy` is `Model.load`; `gpus` are the ids of the devices that models may use.
        `first_responses` counts how long clients wait for them.

        `resolve_memory` finds the shared memory that requests to ensembles and to cached models name. `cache` keeps the
        answers of models that have `response_cache` enabled. `refresh` brings repositories that are copies up to date.
        `namespaces` are what the repositories are called with `--model-namespacing`, by default their directories.
        """
        self.shared_memory: SharedMemory = shared_memory
        self.settings: Settings = settings(self.serves)
        self.tracing = tracing
        self.custom_metrics = CustomMetrics()
        """What models count by themselves, for the metrics endpoint."""
        self.answers = AnswerCounts()
        self.cache_use = cache.use if cache is not None else None
        self._options = options
        self._load_backend = load_backend
        self._load_copy = load_copy
        self._resolve_memory = resolve_memory
        self._hold_regions = hold_regions
        self._cache = cache
        self._first_responses = first_responses
        self._gpus = gpus
        self._backend_settings = options.backend_settings
        self._repositories = ModelRepositories(
            map(Path, options.model_repositories),
            options.model_config_name,
            refresh,
            namespaces=(namespaces or options.model_repositories) if options.model_namespacing else None,
        )
        self._registry = ModelRegistry(namespacing=options.model_namespacing)
        self._files = FileThreads()
        self._loader = ModelLoader(
            self._registry,
            ModelReader(self._repositories, auto_complete=options.auto_complete, agent_directory=agent_directory).read,
            self._create,
            self._files,
            parallel=options.model_load_thread_count,
            retries=options.model_load_retry_count,
        )
        self._poller = RepositoryPoller(self._repositories, self._loader, self._files)
        self._polling: asyncio.Task[None] | None = None
        self._missing: list[str] = []
        """What is wrong with the repositories, where the start goes on all the same."""
        self._started = False
        """Whether the first loads are over; not ready before."""
        self._accepting = True
        """Whether requests from outside are taken."""
        self._retiring = False
        """Whether the server will stop soon, and says so to those who ask whether it is ready."""
        self._settled_once = False
        """Whether every model was ready at some moment; kept for steady readiness."""
        self._inner = InnerServer(self, self._submit)

    # --- life ---

    async def start(self, wait: Wait = asyncio.sleep) -> None:
        """
        Load the models of the control mode; returns when each one serves or failed. `wait` is the poller's clock.

        Raises InferenceError, with nothing left running, when the server must not start.
        """
        await self._check_repositories()
        for repository in self._repositories.directories:
            for advice in await self._files.run(partial(advise_on_repository, repository)):
                logger.warning("%s", advice)
        if self._cache is not None:
            await self._cache.start()
        complete = await self._poller.load_all(self._options.startup_models)
        self._log_models()
        self._settled_once = self._registry.all_settled()
        self._started = True
        if self._options.exit_on_error and not complete:
            await self.stop()
            raise InternalError("failed to load all models")
        seconds = self._options.repository_poll_secs
        if self._options.control_mode is ControlMode.POLL and seconds > 0:
            self._polling = asyncio.create_task(self._poller.run(seconds, wait))

    def retire(self) -> None:
        """Be ready no more, but serve as before: `stop` follows when nobody sends new requests here."""
        self._retiring = True

    async def finish_sequences(self, timeout_seconds: float) -> None:
        """
        Begin no new sequences, but serve on until those that live are over, or the time is.

        Not ready any more meanwhile. Returns at once where no sequence lives.
        """
        if any(copy.live_sequences for copy in self._loader.copies):
            self.retire()
            await finish_sequences(self._loader, timeout_seconds)

    async def stop(self, timeout_seconds: float | None = None) -> None:
        """
        Refuse new requests, finish those in flight, unload every model.

        Raises InternalError when that takes longer than the time, by default that of the options.
        """
        self._accepting = False
        if self._polling is not None:
            self._polling.cancel()
        await stop_models(self._loader, self._options.exit_timeout_secs if timeout_seconds is None else timeout_seconds)
        if self._cache is not None:
            await self._cache.close()

    # --- inference ---

    def find_model(self, name: str, version: int = ANY_VERSION) -> ServedModel:
        return self._registry.find(name, version).served

    def model_names(self) -> Sequence[str]:
        return self._registry.names()

    def served_versions(self, name: str) -> Mapping[int, ServedModel | None] | None:
        return self._registry.served(name)

    def watch_models(self, changed: Callable[[str], None]) -> Callable[[], None]:
        return self._registry.watch(changed)

    def submit(self, request: InferenceRequest) -> None:
        if not self._accepting:
            raise UnavailableError(
                f"{request.error_prefix}Server is stopping, scheduler for model has stopped accepting new inference "
                "requests"
            )
        self._hold_regions(request, self._submit)

    def _submit(self, request: InferenceRequest) -> None:
        """Whoever asks: models that call models go on until everything is drained."""
        serving = self._registry.find(request.model_name, request.model_version).copy
        trace = request.trace
        if trace is None:
            serving.submit(request)
            return
        trace.follow(request, ensemble=bool(serving.composing))
        try:
            serving.submit(request)
        except InferenceError:
            trace.refused()
            raise

    def cancel(self, request: InferenceRequest) -> None:
        request.cancelled = True
        for serving in self._registry.copies(request.model_name):
            serving.cancel(request)

    # --- readiness ---

    async def is_live(self) -> bool:
        """Whether its repositories could be read when it started, as in Triton. True while the first models load."""
        return not self._missing

    async def is_ready(self) -> bool:
        """Raises UnavailableError while the server stops."""
        self._refuse_when_stopping()
        if self._retiring or not self._started:
            return False
        if self._missing or not self._options.strict_readiness:
            return not self._options.strict_readiness
        if not (self._options.steady_readiness and self._settled_once):
            self._settled_once = self._registry.all_settled()
        if not (self._settled_once and self._registry.all_alive()):
            return False
        return all(await asyncio.gather(*(serving.agrees() for serving in self._registry.serving())))

    async def is_model_ready(self, name: str, version: int = ANY_VERSION) -> bool:
        """Whether a version serves and can do so: not while all of its processes are dead, or it says otherwise."""
        if not self.serves(name, version):
            return False
        found = self._registry.find(name, version).copy
        return found.ready and await found.agrees()

    def serves(self, name: str, version: int = ANY_VERSION) -> bool:
        """Whether a request for the model would find a version now."""
        try:
            self._registry.find(name, version)
        except InferenceError:
            return False
        return True

    # --- documents ---

    async def server_metadata(self) -> ServerMetadata:
        return ServerMetadata(self._options.server_id, self._options.triton.version or __version__, EXTENSIONS)

    async def model_metadata(self, name: str, version: int = ANY_VERSION) -> ModelMetadata:
        found = self._registry.find(name, version).served
        config = found.config
        inputs, outputs = (
            tuple(TensorMetadata(spec.name, spec.datatype, config.full_shape(spec)) for spec in specs)
            for specs in (config.inputs, config.outputs)
        )
        ready = self._registry.ready(self._registry.identifier(name))
        versions = tuple(ready) if version == ANY_VERSION else (found.version,)
        return ModelMetadata(name, versions, config.platform or config.backend, inputs, outputs)

    async def model_config(self, name: str, version: int = ANY_VERSION) -> Mapping[str, Any]:
        return self._registry.find(name, version).served.config.document

    async def statistics(self, name: str = "", version: int = ANY_VERSION) -> Sequence[VersionStatistics]:
        return self._registry.statistics(name, version)

    # --- models ---

    async def repository_index(self, *, ready: bool = False) -> Sequence[IndexEntry]:
        located = await self._files.run(self._repositories.locate)
        counts = {identifier: len(places) for identifier, places in located.items()}
        entries = self._registry.index(counts, ready=ready, complaints=self._loader.complaints)
        return [replace(entry, name=located[entry.name][0].name) for entry in entries]

    async def load_model(
        self, name: str, *, config: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> None:
        self._refuse_control()
        if not name.strip():
            raise InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy.")
        if not is_model_name(name):
            raise InvalidArgumentError(
                f"invalid model name '{name}', model name must not contain path traversal characters"
            )
        await self._files.run(self._repositories.refresh)
        found = (name,) if files else await self._files.run(partial(self._repositories.identifiers, name))
        await self._loader.load_each(found, Override(config, files) if config is not None or files else None)

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        self._refuse_control()
        for identifier in await self._models_of(name):
            await self._loader.unload(identifier, unload_dependents=unload_dependents)

    async def _models_of(self, name: str) -> Sequence[str]:
        """The models of a name that there are or were."""
        if not self._options.model_namespacing:
            return (name,)
        found = await self._files.run(partial(self._repositories.identifiers, name))
        return tuple(dict.fromkeys((*found, *self._registry.named(name))))

    def _refuse_control(self) -> None:
        self._refuse_when_stopping()
        if self._options.control_mode is not ControlMode.EXPLICIT:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    def _refuse_when_stopping(self) -> None:
        if not self._accepting:
            raise UnavailableError("Server exiting")

    # --- loading ---

    async def _check_repositories(self) -> None:
        if not self._options.model_repositories:
            raise InvalidArgumentError("--model-repository must be specified")
        try:
            await self._files.run(self._repositories.check)
        except InferenceError as error:
            if self._options.exit_on_error:
                raise
            logger.error("%s", error.message)  # noqa: TRY400 - the operator asked to go on
            self._missing.append(error.message)

    async def _create(self, polled: PolledModel, version: int) -> ModelCopy:
        begin_ns = time.monotonic_ns()
        model = await self._create_bare(polled, version)
        model.statistics.load_ns = time.monotonic_ns() - begin_ns
        if self._cache is not None and model.config.response_cache:
            model.statistics.cached = True
            model = CachedModel(model, self._cache, self._resolve_memory, identifier=polled.identifier)
        if WalkedModel.concerns(model.config):
            model = WalkedModel(model, self._resolve_memory)
        if self._first_responses:
            bounds = model.config.histogram_buckets.get(FIRST_RESPONSE_FAMILY, FIRST_RESPONSE_BOUNDS_MS)
            model = TimedModel(model, bounds)
        return model

    async def _create_bare(self, polled: PolledModel, version: int) -> ModelCopy:
        files = ModelFiles(
            name=polled.name,
            version=version,
            directory=polled.entry.directory,
            version_directory=polled.entry.version_directory(version),
            settings=self._backend_settings.of(polled.config.backend),
            gpus=self._gpus,
            server=self._inner,
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            backend_directory=Path(self._options.backend_directory),
            custom_metrics=self.custom_metrics,
        )
        if isinstance(polled.config.scheduling, Ensemble):
            most = self._options.stream_buffer_size
            return await EnsembleModel.load(
                files, polled.config, self._bind, resolve_memory=self._resolve_memory, most_waiting_bytes=most
            )
        backend_class, config = await LOADING.run(
            partial(find_backend, polled.config, files, Path(self._options.backend_directory), self._load_backend)
        )
        return await self._load_copy(files, config, backend_class, auto_complete=self._options.auto_complete)

    def _bind(self, config: ModelConfig, ensemble: Ensemble) -> tuple[ModelConfig, tuple[ModelCopy, ...]]:
        return bind(config, ensemble, self._registry, self._loader.failures)

    def _log_models(self) -> None:
        rows: list[tuple[str, str, str]] = []
        for identifier in self._registry.identifiers():
            versions = self._registry.versions(identifier)
            rows += [(identifier, str(version.number), version.status) for version in versions]
            if not versions:
                rows.append((identifier, "-", "Not loaded: No model version was found"))
        logger.info(table(("Model", "Version", "Status"), rows))
