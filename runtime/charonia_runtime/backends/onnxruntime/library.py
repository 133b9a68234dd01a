"""The onnxruntime package: imported when the first model asks, set up once for the process, its errors translated."""

import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charonia_runtime import telemetry
from charonia_runtime.core.errors import InferenceError, InternalError, UnavailableError, UnsupportedError
from charonia_runtime.core.parameters import boolean_of, integer_of
from charonia_runtime.devices import default_thread_count
from charonia_runtime.installation import install_command

_STATUS = re.compile(r"\[ONNXRuntimeError\] : (\d+) : \w+ : (.*)", re.DOTALL)
_setup_lock = threading.Lock()
_global_pool_sizes: list[tuple[int, int]] = []


def import_library() -> Any:
    """
    The `onnxruntime` module, which sends no usage reports unless the user wants that.

    Raises UnavailableError that names what to install.
    """
    telemetry.turn_off(os.environ)  # also where no command of ours has: its API comes too late for what an import does
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(
            f"the onnxruntime backend needs the onnxruntime package: {install_command('runtime')}, or for NVIDIA GPUs "
            f"{install_command('gpu')} ({error})"
        ) from error
    if os.environ[telemetry.ONNXRUNTIME_SWITCH] == telemetry.SWITCHES[telemetry.ONNXRUNTIME_SWITCH]:
        onnxruntime.disable_telemetry_events()
    return onnxruntime


def has_cuda_build() -> bool:
    """Whether the installed package carries the CUDA execution provider. Does not import it."""
    spec = importlib.util.find_spec("onnxruntime")
    locations = (spec.submodule_search_locations or ()) if spec else ()
    return any(Path(location, "capi", "libonnxruntime_providers_cuda.so").exists() for location in locations)


def wants_global_pool(settings: Mapping[str, str]) -> bool:
    """Whether the command line asks for one thread pool for all models."""
    return boolean_of(settings, "enable-global-threadpool", default=False)


def set_up_global_pool(library: Any, settings: Mapping[str, str]) -> None:
    """Size the process-wide pool, once, before the first session. Raises UnsupportedError where the package is old."""
    with _setup_lock:
        if _global_pool_sizes:
            return
        if not hasattr(library, "set_global_thread_pool_sizes"):
            raise UnsupportedError(
                f"enable-global-threadpool needs a newer onnxruntime than the installed {library.__version__}"
            )
        sizes = (
            integer_of(settings, "intra_op_thread_count", default_thread_count()),
            integer_of(settings, "inter_op_thread_count", 0),
        )
        with translated_errors():
            library.set_global_thread_pool_sizes(*sizes)
        _global_pool_sizes.append(sizes)


def preload_cuda(library: Any) -> None:
    """Make CUDA and cuDNN that were installed as wheels visible to the CUDA execution provider."""
    with _setup_lock:
        if hasattr(library, "preload_dlls"):
            library.preload_dlls()


@contextmanager
def translated_errors() -> Iterator[None]:
    """Everything that onnxruntime raises inside becomes an InternalError with Triton's text."""
    try:
        yield
    except InferenceError:
        raise
    except Exception as error:
        raise translate(error) from error


def translate(error: Exception) -> InternalError:
    """`onnx runtime error <code>: <text>`; 1 (FAIL) is the code of an exception that carries none."""
    found = _STATUS.search(str(error))
    code, text = found.groups() if found else ("1", str(error) or type(error).__name__)
    return InternalError(f"onnx runtime error {code}: {text}")
