"""The life of one loaded TensorFlow model."""

from typing import Any, ClassVar

from charonia_runtime.backends.tensorflow.checks import check_configuration, check_signature
from charonia_runtime.backends.tensorflow.completion import complete_from_signature
from charonia_runtime.backends.tensorflow.instance import Instance
from charonia_runtime.backends.tensorflow.library import import_library, may_use_gpus, step
from charonia_runtime.backends.tensorflow.models import DEFAULT_NAMES, SAVED_MODEL, ModelSource, read_model
from charonia_runtime.backends.tensorflow.sessions import Sessions
from charonia_runtime.backends.tensorflow.settings import read_backend_settings, read_init_ops, read_settings
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch_tensors import check_kinds
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.core.parameters import integer_of
from charonia_runtime.model_file import find_model_file

_DEFAULT_MAX_BATCH_SIZE = 4


class Backend:
    """
    One version of a SavedModel or a frozen graph.

    Each instance has a session of its own, because graphs may keep variables between calls; with
    `MAX_SESSION_SHARE_COUNT` so many instances on one device use the same.
    """

    traits: ClassVar[BackendTraits] = BackendTraits(
        default_cpu_instances=2,
        # With the package for processors only, a model that says nothing of devices runs there.
        preferred_kind=InstanceKind.AUTO if may_use_gpus() else InstanceKind.CPU,
        any_thread=True,
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._backend_settings = read_backend_settings(files.settings)
        self._tensorflow: Any = import_library()
        self._sessions: Sessions | None = None

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        check_configuration(config)
        if config.platform != SAVED_MODEL:
            return config
        default = integer_of(self._files.settings, "default-max-batch-size", _DEFAULT_MAX_BATCH_SIZE)
        with step(f"unable to auto-complete model configuration for '{config.name}', failed to load model: "):
            source = self._read(config, self._first_placement(config))
        return complete_from_signature(config, source.signature, default)

    def load(self, config: ModelConfig) -> None:
        check_configuration(config)
        check_kinds(config)
        settings = read_settings(config.parameters, config.name)
        first = self._first_placement(config)
        self._load_operations(config)
        with step(f"failed to load model '{config.name}': "):
            source = self._read(config, first)
        check_signature(config, source.signature)
        init_ops = read_init_ops(self._files, settings.init_ops_file) if settings.init_ops_file else ()
        self._sessions = Sessions(self._tensorflow, source, config, settings, self._backend_settings, init_ops)
        # One session is opened here, so that a fault of the model shows before there are instances.
        self._sessions.prepare(first)

    def create_instance(self, placement: Placement) -> Instance:
        if self._sessions is None:
            raise RuntimeError("create_instance before load")
        session = self._sessions.take(placement)
        with step("unable to create instance: "):
            return Instance(session, self._sessions.source.signature, self._sessions.config)

    def close(self) -> None:
        if self._sessions is not None:
            self._sessions.close()
        self._sessions = None

    def _read(self, config: ModelConfig, placement: Placement) -> ModelSource:
        path = find_model_file(self._files, config, placement.kind, placement.device_id, DEFAULT_NAMES[config.platform])
        return read_model(self._tensorflow, path, read_settings(config.parameters, config.name), config)

    def _load_operations(self, config: ModelConfig) -> None:
        for path in config.op_library_filenames:
            with step(f"failed to load operations of model '{config.name}': "):
                self._tensorflow.load_op_library(path)

    def _first_placement(self, config: ModelConfig) -> Placement:
        return placements(resolve_instance_groups(config, self.traits, self._files.gpus))[0]
