"""The sessions in which a model's instances run: where, with which threads, how many instances to a session."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from charonia_runtime.backends.tensorflow.library import step
from charonia_runtime.backends.tensorflow.models import ModelSource
from charonia_runtime.backends.tensorflow.settings import BackendSettings, Settings
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.devices import default_thread_count

_MIXED_PRECISION = "auto_mixed_precision"
_WITHOUT_EFFECT = frozenset({"tensorrt", "gpu_io"})
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Shared:
    """A session and how many instances more may use it."""

    session: Any
    seats: int


@dataclass(slots=True)
class Sessions:
    """Opens sessions, each for as many instances of one device as `MAX_SESSION_SHARE_COUNT` allows."""

    tensorflow: Any
    source: ModelSource
    config: ModelConfig
    settings: Settings
    backend_settings: BackendSettings
    init_ops: Sequence[str] = ()
    _open: dict[str, list[_Shared]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, placement: Placement) -> None:
        """Open the session that the first instance will take. Raises InferenceError."""
        with self._guard:
            self._add(placement)

    def take(self, placement: Placement) -> Any:
        """The session of a new instance. Raises InferenceError."""
        with self._guard:
            free = [shared for shared in self._open.get(_device(placement), ()) if shared.seats]
            shared = free[0] if free else self._add(placement)
            shared.seats -= 1
            return shared.session

    def close(self) -> None:
        """Free the sessions, once their instances are closed."""
        for sessions in self._open.values():
            for shared in sessions:
                shared.session.close()
        self._open.clear()

    def _add(self, placement: Placement) -> _Shared:
        device = _device(placement)
        with step(f"failed to load model '{self.config.name}': "):
            v1 = self.tensorflow.compat.v1
            graph = self.tensorflow.Graph()
            session = v1.Session(graph=graph, config=self._session_config(v1, placement))
            try:
                with graph.as_default(), graph.device(device):
                    self.source.open(session)
                for name in self.init_ops:
                    session.run(graph.get_operation_by_name(name))
            except BaseException:
                session.close()
                raise
        if placement.kind is InstanceKind.GPU and not self.tensorflow.config.list_physical_devices("GPU"):
            _logger.warning("instance '%s': the installed tensorflow sees no GPU", placement.name)
        shared = _Shared(session, self.settings.instances_per_session)
        self._open.setdefault(device, []).append(shared)
        return shared

    def _session_config(self, v1: Any, placement: Placement) -> Any:
        settings, optimization = self.settings, self.config.optimization
        made = v1.ConfigProto(
            intra_op_parallelism_threads=settings.intra_op_threads or default_thread_count(),
            inter_op_parallelism_threads=settings.inter_op_threads or default_thread_count(),
            use_per_session_threads=settings.own_threads,
            allow_soft_placement=self.backend_settings.soft_placement,
        )
        if placement.kind is InstanceKind.CPU:
            made.device_count["GPU"] = 0
        if self.backend_settings.gpu_memory_fraction:
            made.gpu_options.per_process_gpu_memory_fraction = self.backend_settings.gpu_memory_fraction
        else:
            made.gpu_options.allow_growth = True
        if optimization.graph_level is not None:
            made.graph_options.optimizer_options.global_jit_level = max(min(optimization.graph_level, 2), -1)
        if placement.kind is InstanceKind.GPU:
            self._accelerate(made)
        return made

    def _accelerate(self, made: Any) -> None:
        for accelerator in self.config.optimization.gpu_accelerators:
            if accelerator.name == _MIXED_PRECISION:
                made.graph_options.rewrite_options.auto_mixed_precision = 1
            elif accelerator.name in _WITHOUT_EFFECT:
                _logger.warning(
                    "model '%s': the execution accelerator '%s' is none of tensorflow's any more, it is ignored",
                    self.config.name, accelerator.name,
                )  # fmt: skip
            else:
                raise InvalidArgumentError(f"unknown Execution Accelerator '{accelerator.name}' is requested")


def _device(placement: Placement) -> str:
    """TensorFlow's name for where instances run; empty where the graph itself says it."""
    if placement.kind is InstanceKind.MODEL:
        return ""
    return f"/device:GPU:{placement.device_id}" if placement.kind is InstanceKind.GPU else "/device:CPU:0"
