"""The torch package: imported when the first model asks, told once what holds for the process; its errors."""

import importlib.util
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from charonia_runtime.backends.pytorch.settings import Settings
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, UnavailableError, UnsupportedError
from charonia_runtime.devices import default_thread_count
from charonia_runtime.installation import install_command

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_chosen_by: dict[str, str] = {}
_JIT_SETTERS = {
    "ENABLE_JIT_PROFILING": "_jit_set_profiling_mode",
    "ENABLE_JIT_EXECUTOR": "_jit_set_profiling_executor",
    "ENABLE_TENSOR_FUSER": "_jit_set_texpr_fuser_enabled",
}
_DATATYPES = {
    "bool": DataType.BOOL, "uint8": DataType.UINT8, "uint16": DataType.UINT16, "uint32": DataType.UINT32,
    "uint64": DataType.UINT64, "int8": DataType.INT8, "int16": DataType.INT16, "int32": DataType.INT32,
    "int64": DataType.INT64, "float16": DataType.FP16, "float32": DataType.FP32, "float64": DataType.FP64,
    "bfloat16": DataType.BF16,
}  # fmt: skip


def import_library() -> Any:
    """The `torch` module. Raises UnavailableError that names what to install."""
    try:
        import torch
    except ImportError as error:
        raise UnavailableError(
            f"the pytorch backend needs the torch package: {install_command('pytorch')} ({error})"
        ) from error
    return torch


def has_cuda_build() -> bool:
    """Whether the installed package was built for CUDA. Does not import it."""
    spec = importlib.util.find_spec("torch")
    locations = (spec.submodule_search_locations or ()) if spec else ()
    return any(Path(location, "lib", "libtorch_cuda.so").exists() for location in locations)


def datatypes(torch: Any) -> Mapping[Any, DataType]:
    """Our type for each of torch's element types that has one."""
    return {getattr(torch, name): datatype for name, datatype in _DATATYPES.items() if hasattr(torch, name)}


def set_up_process(torch: Any, settings: Settings, model: str) -> None:
    """Do what `settings` say of the whole process. The first model that says something of a switch decides it."""
    if settings.intra_op_threads:
        _choose("INTRA_OP_THREAD_COUNT", model, torch.set_num_threads, settings.intra_op_threads)
    elif "INTRA_OP_THREAD_COUNT" not in _chosen_by and 0 < default_thread_count() < torch.get_num_threads():
        torch.set_num_threads(default_thread_count())
    if settings.inter_op_threads:
        _choose("INTER_OP_THREAD_COUNT", model, torch.set_num_interop_threads, settings.inter_op_threads)
    if not settings.cudnn:
        _choose("DISABLE_CUDNN", model, partial(setattr, torch.backends.cudnn, "enabled"), False)
    for name, value in settings.jit_switches.items():
        setter = getattr(torch._C, _JIT_SETTERS[name], None)  # noqa: SLF001 - these have no public name
        if setter is None:
            _logger.warning("parameter '%s' of model '%s' is unknown to the installed torch", name, model)
        else:
            _choose(name, model, setter, value)


def _choose(name: str, model: str, setter: Callable[[Any], object], value: Any) -> None:
    with _lock:
        first = _chosen_by.setdefault(name, model)
        if first != model:
            _logger.warning(
                "parameter '%s' of model '%s' is ignored: it holds for the process, and model '%s' has set it",
                name, model, first,
            )  # fmt: skip
            return
        try:
            setter(value)
        except RuntimeError as error:  # thread pools cannot be sized once they have started
            _logger.warning("parameter '%s' of model '%s' comes too late: %s", name, model, error)


def check_inputs_of_compiled_models() -> None:
    """
    Let the code of AOTInductor compare its inputs with what it was compiled for.

    Without it a request of another shape than the model was compiled for reads beyond its own memory.
    """
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"


@contextmanager
def loading(model: str) -> Iterator[None]:
    """Everything that torch raises inside becomes an InternalError with Triton's text; what it deprecates is served."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        try:
            yield
        except Exception as error:
            raise InternalError(f"failed to load model '{model}': {error}") from error


def execution_error(error: Exception) -> InternalError:
    """What a failed execution answers."""
    return InternalError(f"PyTorch execute failure: {error}")


def require_cuda(torch: Any, device_id: int) -> None:
    """Raises UnsupportedError where the installed torch cannot use that GPU."""
    if not torch.cuda.is_available() or device_id >= torch.cuda.device_count():
        raise UnsupportedError(f"the installed torch ({torch.__version__}) cannot use GPU {device_id}")
