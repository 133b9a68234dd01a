"""The openvino package: imported when the first model asks, its element types, its errors translated."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, UnavailableError
from charonia_runtime.installation import install_command

ELEMENT_NAMES = {
    DataType.BOOL: "boolean", DataType.UINT8: "u8", DataType.UINT16: "u16", DataType.UINT32: "u32",
    DataType.UINT64: "u64", DataType.INT8: "i8", DataType.INT16: "i16", DataType.INT32: "i32", DataType.INT64: "i64",
    DataType.FP16: "f16", DataType.FP32: "f32",
}  # fmt: skip
"""What openvino calls the types that a configuration may give a tensor. Its processors make FP64 smaller unasked."""
DATATYPES = {name: datatype for datatype, name in ELEMENT_NAMES.items()}


def import_library() -> Any:
    """The `openvino` module. Raises UnavailableError that names what to install."""
    try:
        import openvino
    except ImportError as error:
        raise UnavailableError(
            f"the openvino backend needs the openvino package: {install_command('openvino')} ({error})"
        ) from error
    return openvino


@contextmanager
def step(name: str) -> Iterator[None]:
    """Everything that openvino raises inside becomes an InternalError that names the step, as in Triton."""
    try:
        yield
    except InferenceError:
        raise
    except Exception as error:
        raise step_error(name, error) from error


def step_error(name: str, error: Exception) -> InternalError:
    """`openvino error in <step> : <text>`."""
    return InternalError(f"openvino error in {name} : {str(error).strip()}")
