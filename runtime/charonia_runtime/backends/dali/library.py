"""The nvidia-dali package: imported when the first model asks, its element types, its errors translated."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, UnavailableError, UnknownError
from charonia_runtime.installation import install_command

DATATYPES: Mapping[int, DataType] = {
    0: DataType.UINT8, 1: DataType.UINT16, 2: DataType.UINT32, 3: DataType.UINT64, 4: DataType.INT8, 5: DataType.INT16,
    6: DataType.INT32, 7: DataType.INT64, 8: DataType.FP16, 9: DataType.FP32, 10: DataType.FP64, 11: DataType.BOOL,
}  # fmt: skip
"""Our type for each number of `DALIDataType`."""
_CAUSE, _PLACE = "encountered:", "C++ context:"
_AFTERWORD = "Current pipeline object is no longer valid."


def import_library() -> Any:
    """The `nvidia.dali` module. Raises UnavailableError that names what to install."""
    try:
        from nvidia import dali
    except (ImportError, OSError) as error:
        raise UnavailableError(
            f"the dali backend needs the nvidia-dali package: {install_command('dali')} ({error})"
        ) from error
    return dali


@contextmanager
def translated() -> Iterator[None]:
    """Everything that DALI raises inside becomes an UnknownError with its text, as in Triton."""
    try:
        yield
    except InferenceError:
        raise
    except Exception as error:
        raise UnknownError(f"DALI error: {_text_of(error)}") from error


def _text_of(error: Exception) -> str:
    """What went wrong, without where the pipeline and DALI were once written."""
    text = str(error)
    cause = text.partition(_CAUSE)[2].partition(_PLACE)[0] or text.removesuffix(_AFTERWORD)
    return cause.strip() or type(error).__name__
