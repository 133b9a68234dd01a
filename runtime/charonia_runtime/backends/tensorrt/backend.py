"""The life of one loaded TensorRT plan."""

import logging
import threading
from typing import Any, ClassVar, Final

from charonia_runtime.backends.tensorrt.checks import check_engine
from charonia_runtime.backends.tensorrt.completion import complete_from_engine
from charonia_runtime.backends.tensorrt.contexts import ProfileContext
from charonia_runtime.backends.tensorrt.engine import describe
from charonia_runtime.backends.tensorrt.instance import Gpu, Instance
from charonia_runtime.backends.tensorrt.library import import_library, open_runtime, read_plan
from charonia_runtime.backends.tensorrt.profiles import profile_indexes
from charonia_runtime.backends.tensorrt.settings import allocation_strategy, read_backend_settings
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch_tensors import check_kinds
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.cuda.memory import MemoryPool
from charonia_runtime.cuda.runtime import Cuda
from charonia_runtime.model_file import find_model_file

_logger = logging.getLogger(__name__)
_DEFAULT_NAME: Final = "model.plan"


class Backend:
    """
    One version of a plan. Its engine is read once for each GPU, when the first instance there is made, and shared.

    What pools of memory have given out outlives the model: answers may still be on their way.
    """

    traits: ClassVar[BackendTraits] = BackendTraits(
        default_model_filename=_DEFAULT_NAME,
        preferred_kind=InstanceKind.GPU,
        parallel_instances=False,
        any_thread=True,
        device_inputs=True,
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._library: Any = import_library()
        self._cuda = Cuda.open("tensorrt")
        self._settings = read_backend_settings(files.settings)
        self._runtime: Any = None
        self._copier = CudaCopier(self._cuda)
        self._pinned_pool = MemoryPool.of_pinned_memory(self._cuda)
        self._guard = threading.Lock()
        self._gpus: dict[int, Gpu] = {}
        self._config: ModelConfig | None = None

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        first = self._first_placement(config)
        if first.kind is not InstanceKind.GPU:
            return config
        engine = self._gpu(config, first).description
        profiles = profile_indexes(first.profiles, engine.profile_count, first.name)
        return complete_from_engine(config, engine, profiles)

    def load(self, config: ModelConfig) -> None:
        check_kinds(config)
        allocation_strategy(config)
        first = self._first_placement(config)
        _check_kind(config, first)
        engine = self._gpu(config, first).description
        check_engine(config, engine, first.name)
        profiles = profile_indexes(first.profiles, engine.profile_count, first.name)
        largest = engine.largest_batch(profiles)
        if config.max_batch_size > largest:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', configuration specified max-batch {config.max_batch_size} but "
                f"TensorRT engine only supports max-batch {largest}"
            )
        self._config = config

    def create_instance(self, placement: Placement) -> Instance:
        if self._config is None:
            raise RuntimeError("create_instance before load")
        config = self._config
        _check_kind(config, placement)
        gpu = self._gpu(config, placement)
        self._cuda.use(gpu.device_id)
        stream = self._cuda.create_stream(priority=config.optimization.priority)
        contexts = {
            profile: ProfileContext(
                self._library,
                gpu.engine,
                gpu.description,
                profile=profile,
                strategy=allocation_strategy(config),
                cuda=self._cuda,
                stream=stream,
                pool=gpu.device_pool,
                instance=placement.name,
            )
            for profile in profile_indexes(placement.profiles, gpu.description.profile_count, placement.name)
        }
        instance = Instance(gpu, config, placement.name, stream, contexts)
        try:
            if config.optimization.cuda_graphs:
                for spec in config.optimization.cuda_graph_specs:
                    instance.record(spec)
        except InferenceError:
            instance.close()
            raise
        return instance

    def close(self) -> None:
        for gpu in self._gpus.values():
            self._cuda.use(gpu.device_id)
            gpu.device_pool.close()
        self._gpus.clear()
        self._pinned_pool.close()
        self._runtime = None

    def _gpu(self, config: ModelConfig, placement: Placement) -> Gpu:
        """The GPU of the placement, with the engine that its plan was read to."""
        device_id = placement.device_id
        with self._guard:
            if device_id not in self._gpus:
                path = find_model_file(self._files, config, placement.kind, device_id, _DEFAULT_NAME)
                self._cuda.use(device_id)
                if self._runtime is None:
                    self._runtime = open_runtime(self._library, self._settings)
                engine = read_plan(self._library, self._runtime, path, config.name)
                self._gpus[device_id] = Gpu(
                    self._cuda,
                    device_id,
                    engine,
                    describe(self._library, engine),
                    MemoryPool.of_device(self._cuda, device_id),
                    self._pinned_pool,
                    self._copier,
                )
                _logger.info("model '%s': read '%s' to GPU %d", config.name, path, device_id)
            return self._gpus[device_id]

    def _first_placement(self, config: ModelConfig) -> Placement:
        return placements(resolve_instance_groups(config, self.traits, self._files.gpus))[0]


def _check_kind(config: ModelConfig, placement: Placement) -> None:
    if placement.kind is not InstanceKind.GPU:
        raise InvalidArgumentError(f"unable to load model '{config.name}', TensorRT backend supports only GPU device")
