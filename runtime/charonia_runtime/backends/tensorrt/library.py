"""The tensorrt package: imported when the first model asks, with a log of ours; plans read by it."""

import ctypes
import logging
import mmap
import threading
from functools import cache
from pathlib import Path
from typing import Any, Final

from charonia_runtime.backends.tensorrt.settings import BackendSettings
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError, UnsupportedError
from charonia_runtime.installation import install_command

logger = logging.getLogger(__name__)

_OLDEST: Final = 10
_DATATYPES: Final = {
    "FLOAT": DataType.FP32, "HALF": DataType.FP16, "BF16": DataType.BF16, "INT8": DataType.INT8,
    "UINT8": DataType.UINT8, "INT32": DataType.INT32, "INT64": DataType.INT64, "BOOL": DataType.BOOL,
}  # fmt: skip
_engine_lock = threading.Lock()
"""TensorRT makes engines and contexts one at a time."""


def import_library() -> Any:
    """The `tensorrt` module. Raises UnavailableError that names what to install."""
    try:
        import tensorrt
    except (ImportError, OSError) as error:
        raise UnavailableError(
            f"the tensorrt backend needs the tensorrt package: {install_command('tensorrt')} ({error})"
        ) from error
    if int(str(tensorrt.__version__).partition(".")[0]) < _OLDEST:
        raise UnavailableError(
            f"the tensorrt backend needs TensorRT {_OLDEST} or newer, found {tensorrt.__version__}: "
            f"{install_command('tensorrt')}"
        )
    return tensorrt


def datatype_of(element: Any) -> DataType:
    """Our type for one of `tensorrt.DataType`; INVALID for those that no protocol has."""
    return _DATATYPES.get(element.name, DataType.INVALID)


@cache
def log_of(library: Any) -> Any:
    """
    The one `ILogger` of the process: TensorRT keeps the first that it is given for all runtimes.

    `last_error` is the text of the last error that this thread has caused.
    """

    class Log(library.ILogger):  # type: ignore[misc]  # the base is known at run time only
        def __init__(self) -> None:
            library.ILogger.__init__(self)
            self._errors = threading.local()

        @property
        def last_error(self) -> str:
            return str(getattr(self._errors, "text", "no reason given"))

        def log(self, severity: Any, msg: str) -> None:
            kinds = library.ILogger.Severity
            if severity in {kinds.INTERNAL_ERROR, kinds.ERROR}:
                self._errors.text = msg
                logger.error("TensorRT: %s", msg)
            elif severity == kinds.WARNING:
                logger.warning("TensorRT: %s", msg)
            else:
                logger.debug("TensorRT: %s", msg)

    return Log()


def open_runtime(library: Any, settings: BackendSettings) -> Any:
    """
    A `tensorrt.Runtime`, with TensorRT's own plugins and those of other libraries registered. Needs a GPU.

    Raises InvalidArgumentError for a library that cannot be loaded, InternalError with TensorRT's text otherwise.
    """
    log = log_of(library)
    for path in settings.plugins:
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise InvalidArgumentError(f"unable to load the TensorRT plugin library '{path}': {error}") from error
    library.init_libnvinfer_plugins(log, "")
    try:
        runtime = library.Runtime(log)
    except Exception as error:
        raise InternalError(f"unable to create TensorRT runtime: {log.last_error}") from error
    if settings.version_compatible:
        # Such plans carry code of the runtime that they were built with.
        runtime.engine_host_code_allowed = True
    return runtime


def read_plan(library: Any, runtime: Any, path: Path, model: str) -> Any:
    """
    The engine in a plan, on this thread's GPU.

    Raises InternalError with TensorRT's text, and UnsupportedError for a plan with an implicit batch dimension.
    """
    log = log_of(library)
    with path.open("rb") as file, _engine_lock:
        if not path.stat().st_size:
            raise InternalError(f"unable to create TensorRT engine: '{path}' is empty")
        # Mapped, not read: plans have gigabytes, and TensorRT copies what it needs.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as plan:
            engine = runtime.deserialize_cuda_engine(plan)
    if engine is None:
        raise InternalError(f"unable to create TensorRT engine: {log.last_error}")
    if getattr(engine, "has_implicit_batch_dimension", False):
        raise UnsupportedError(
            f"unable to load model '{model}', its plan has an implicit batch dimension, which TensorRT no longer runs: "
            "build the plan anew from a network with an explicit batch dimension"
        )
    return engine


def make_context(library: Any, engine: Any, strategy: str) -> Any:
    """An `IExecutionContext` whose memory is allocated by `strategy`. Raises InternalError with TensorRT's text."""
    with _engine_lock:
        context = engine.create_execution_context(getattr(library.ExecutionContextAllocationStrategy, strategy))
    if context is None:
        raise InternalError(f"unable to create TensorRT context: {log_of(library).last_error}")
    return context
