"""The tensorflow package: imported when the first model asks, its element types, its errors translated."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, UnavailableError
from charonia_runtime.installation import install_command

DATATYPES: Mapping[int, DataType] = {
    1: DataType.FP32, 2: DataType.FP64, 3: DataType.INT32, 4: DataType.UINT8, 5: DataType.INT16, 6: DataType.INT8,
    7: DataType.BYTES, 9: DataType.INT64, 10: DataType.BOOL, 17: DataType.UINT16, 19: DataType.FP16,
    22: DataType.UINT32, 23: DataType.UINT64,
}  # fmt: skip
"""Our type for each number of TensorFlow's `DataType` message. BF16 is none of them, as in Triton."""


def import_library() -> Any:
    """The `tensorflow` module. Raises UnavailableError that names what to install."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # else it greets at length
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import tensorflow as tf
    except (ImportError, TypeError) as error:  # a protobuf that does not fit shows as either
        raise UnavailableError(
            f"the tensorflow backend needs the tensorflow package: {install_command('tensorflow')}, or without GPUs "
            f"{install_command('tensorflow-cpu')} ({error})"
        ) from error
    return tf


def may_use_gpus() -> bool:
    """Whether the installed package is the one that knows GPUs. Does not import it."""
    try:
        distribution("tensorflow")
    except PackageNotFoundError:
        return False
    return True


@contextmanager
def step(prefix: str) -> Iterator[None]:
    """Everything that tensorflow raises inside becomes an InternalError with its text after `prefix`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except InferenceError:
            raise
        except Exception as error:
            raise InternalError(prefix + text_of(error)) from error


def text_of(error: Exception) -> str:
    """What went wrong, without where the graph was once built."""
    text = str(getattr(error, "message", "")) or str(error) or type(error).__name__
    return text.partition("\n\n")[0].strip()
