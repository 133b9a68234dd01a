"""The life of one loaded DALI pipeline."""

from functools import partial
from typing import Any, ClassVar

from charonia_runtime.backends.dali.completion import check_pipeline, complete_from_pipeline, wants_no_batches
from charonia_runtime.backends.dali.description import Description, describe
from charonia_runtime.backends.dali.instance import Instance
from charonia_runtime.backends.dali.library import import_library, translated
from charonia_runtime.backends.dali.settings import BackendSettings, Settings, read_backend_settings, read_settings
from charonia_runtime.backends.dali.sources import DEFAULT_NAME, read_pipeline
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import UnsupportedError


class Backend:
    """One version of a pipeline; each instance builds one of its own from the same bytes."""

    traits: ClassVar[BackendTraits] = BackendTraits(default_model_filename=DEFAULT_NAME)

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._backend_settings: BackendSettings = read_backend_settings(files.settings)
        self._dali: Any = import_library()
        self._load_plugins()
        self._serialized = b""
        self._config: ModelConfig | None = None
        self._settings = Settings()

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        batched = config.batches or not wants_no_batches(self._text())
        return complete_from_pipeline(config, self._description(config), batched=batched)

    def load(self, config: ModelConfig) -> None:
        if config.decoupled:
            raise UnsupportedError(
                f"model '{config.name}': the dali backend answers each request once, model_transaction_policy must not "
                "be decoupled"
            )
        check_pipeline(config, self._description(config))
        self._settings = read_settings(config.parameters, config.name)
        self._config = config

    def create_instance(self, placement: Placement) -> Instance:
        if self._config is None:
            raise RuntimeError("create_instance before load")
        device = placement.device_id if placement.kind is InstanceKind.GPU else None
        open_pipeline = partial(self._open, self._serialized, self._config.max_batch_size, device)
        with translated():
            return Instance(open_pipeline, self._config, self._settings.split)

    def close(self) -> None:
        self._serialized = b""
        if self._backend_settings.release_after_unload:
            self._dali.backend.ReleaseUnusedMemory()

    def _open(self, serialized: bytes, batch_size: int, device: int | None) -> Any:
        given = {"batch_size": batch_size} if batch_size else {}
        if self._settings.threads:
            given["num_threads"] = self._settings.threads
        # One batch at a time, from the start to the end: nothing is prepared ahead of the requests.
        return self._dali.pipeline.Pipeline.deserialize(
            serialized_pipeline=serialized,
            device_id=device,
            prefetch_queue_depth=1,
            exec_async=False,
            exec_pipelined=False,
            **given,
        )

    def _description(self, config: ModelConfig) -> Description:
        if not self._serialized:
            self._serialized = read_pipeline(self._files, config.default_model_filename)
        return describe(self._serialized)

    def _text(self) -> bytes:
        path = self._files.directory / "config.pbtxt"
        return path.read_bytes() if path.is_file() else b""

    def _load_plugins(self) -> None:
        for path in self._backend_settings.plugin_libraries:
            with translated():
                self._dali.plugin_manager.load_library(path)
