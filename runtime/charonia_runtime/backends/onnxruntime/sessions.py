"""Session options out of a configuration, and the sessions of one model, shared by the instances of a device."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from charonia_runtime.backends.onnxruntime.library import preload_cuda, translated_errors
from charonia_runtime.backends.onnxruntime.providers import CUDA, OPENVINO, Provider, check_available
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.parameters import boolean_of, integer_of
from charonia_runtime.devices import default_thread_count

_SPINNING_OFF = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}
_SHRINKAGE: Final = "memory.enable_memory_arena_shrinkage"
_FATAL = 4
_openvino_lock = threading.Lock()


class GraphLevel(Enum):
    """How far a graph is optimised; the value is onnxruntime's name."""

    ALL = "ORT_ENABLE_ALL"
    BASIC = "ORT_ENABLE_BASIC"
    EXTENDED = "ORT_ENABLE_EXTENDED"
    NONE = "ORT_DISABLE_ALL"


_GRAPH_LEVELS = {-1: GraphLevel.BASIC, 1: GraphLevel.EXTENDED, 2: GraphLevel.NONE}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a configuration says of its sessions, devices apart. Thread counts of 0 are onnxruntime's choice."""

    graph_level: GraphLevel
    parallel: bool
    intra_op_threads: int
    inter_op_threads: int
    own_threads: bool
    memory_arena: bool
    memory_pattern: bool
    entries: tuple[tuple[str, str], ...]
    op_libraries: tuple[str, ...]
    arena_shrinkage: str


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """All that makes one session differ from another. `owner` is an instance's name where it may not be shared."""

    path: Path
    providers: tuple[Provider, ...]
    settings: SessionSettings
    owner: str = ""


def session_settings(config: ModelConfig, *, global_pool: bool) -> SessionSettings:
    """Raises InvalidArgumentError for a parameter that is malformed."""
    parameters = config.parameters
    mode = integer_of(parameters, "execution_mode", 0)
    if mode not in {0, 1}:
        raise InvalidArgumentError(
            f"Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got {mode} ."
        )
    intra_op = integer_of(parameters, "intra_op_thread_count", 0)
    inter_op = integer_of(parameters, "inter_op_thread_count", 0)
    return SessionSettings(
        graph_level=_GRAPH_LEVELS.get(config.optimization.graph_level or 0, GraphLevel.ALL),
        parallel=mode == 1,
        intra_op_threads=intra_op if intra_op > 0 else default_thread_count(),
        inter_op_threads=max(inter_op, 0),
        own_threads=not global_pool,
        memory_arena=boolean_of(parameters, "enable_mem_arena", default=True),
        memory_pattern=boolean_of(parameters, "enable_mem_pattern", default=True),
        entries=_config_entries(parameters),
        op_libraries=config.op_library_filenames,
        arena_shrinkage=parameters.get(_SHRINKAGE, ""),
    )


def _config_entries(parameters: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    given = {key: value for key, value in parameters.items() if key.startswith("session.")}
    return tuple((_SPINNING_OFF | given).items())


class Sessions:
    """The sessions of one model version. Thread-safe: instances on several devices may be made at the same time."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._guard = threading.Lock()
        self._locks: dict[SessionPlan, threading.Lock] = {}
        self._sessions: dict[SessionPlan, Any] = {}

    def get(self, plan: SessionPlan) -> Any:
        """The session of `plan`, made on the first call. Raises InternalError with onnxruntime's text."""
        with self._guard:
            lock = self._locks.setdefault(plan, threading.Lock())
        with lock:
            session = self._sessions.get(plan)
            if session is None:
                session = self._sessions[plan] = self._create(plan)
            return session

    def clear(self) -> None:
        """Let go of the sessions; their memory is freed when the last instance has done so too."""
        self._sessions.clear()

    def _create(self, plan: SessionPlan) -> Any:
        names = [provider.name for provider in plan.providers]
        check_available(plan.providers, self._library.get_available_providers())
        if CUDA in names:
            preload_cuda(self._library)
        if OPENVINO in names:
            # Making sessions with OpenVINO is not thread-safe.
            with _openvino_lock:
                return self._open(plan)
        return self._open(plan)

    def _open(self, plan: SessionPlan) -> Any:
        with translated_errors():
            session = self._library.InferenceSession(
                str(plan.path),
                session_options(self._library, plan.settings),
                providers=[(provider.name, dict(provider.options)) for provider in plan.providers],
                # Without this a failing GPU would be replaced by the CPU behind the operator's back.
                enable_fallback=0,
            )
        used = session.get_providers()
        missing = next((provider.name for provider in plan.providers if provider.name not in used), None)
        if missing is not None:
            raise InternalError(f"onnx runtime error 1: {missing} could not be started for '{plan.path}'")
        return session


def session_options(library: Any, settings: SessionSettings) -> Any:
    """An `onnxruntime.SessionOptions`. Custom op libraries are loaded here."""
    options = library.SessionOptions()
    options.graph_optimization_level = getattr(library.GraphOptimizationLevel, settings.graph_level.value)
    modes = library.ExecutionMode
    options.execution_mode = modes.ORT_PARALLEL if settings.parallel else modes.ORT_SEQUENTIAL
    if settings.own_threads:
        options.intra_op_num_threads = settings.intra_op_threads
        options.inter_op_num_threads = settings.inter_op_threads
    else:
        options.use_per_session_threads = False
    options.enable_cpu_mem_arena = settings.memory_arena
    options.enable_mem_pattern = settings.memory_pattern
    for key, value in settings.entries:
        options.add_session_config_entry(key, value)
    for path in settings.op_libraries:
        options.register_custom_ops_library(path)
    return options


def run_options(library: Any, settings: SessionSettings) -> Any:
    """An `onnxruntime.RunOptions`. Failures of a run reach the client that caused them, so they are not logged."""
    options = library.RunOptions()
    options.log_severity_level = _FATAL
    if settings.arena_shrinkage:
        options.add_run_config_entry(_SHRINKAGE, settings.arena_shrinkage)
    return options
