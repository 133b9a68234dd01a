"""Tensors given as numbers in a message (`InferTensorContents`) instead of as raw bytes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.tensor import bytes_of, pack_bytes

_FIELDS: tuple[tuple[str, tuple[DataType, ...]], ...] = (
    ("bool_contents", (DataType.BOOL,)),
    ("int_contents", (DataType.INT32, DataType.INT8, DataType.INT16)),
    ("int64_contents", (DataType.INT64,)),
    ("uint_contents", (DataType.UINT32, DataType.UINT8, DataType.UINT16)),
    ("uint64_contents", (DataType.UINT64,)),
    ("fp32_contents", (DataType.FP32,)),
    ("fp64_contents", (DataType.FP64,)),
    ("bytes_contents", (DataType.BYTES,)),
)
"""Field → the types it may hold, its natural one first; in the order in which Triton looks at them."""


def read_contents(tensor: Any, datatype: DataType, model_name: str) -> memoryview:
    """
    The tensor's bytes in the encoding of raw tensors; empty when no field holds a value.

    Narrow types keep the low bytes of what was sent. Raises InvalidArgumentError when a field does not fit the
    datatype, or when more than one is filled.
    """
    found: Any = None
    holder = DataType.INVALID
    for field, datatypes in _FIELDS:
        values = getattr(tensor.contents, field)
        if not values:
            continue
        where = f"unexpected explicit tensor data for input tensor '{tensor.name}' for model '{model_name}'"
        if found is not None:
            raise InvalidArgumentError(f"{where}, binary data was already supplied.")
        if datatype not in datatypes:
            raise InvalidArgumentError(
                f"{where} of type '{datatypes[0].wire_name}', expected datatype '{datatype.wire_name}'"
            )
        found, holder = values, datatypes[0]
    if found is None:
        return memoryview(b"")
    if holder is DataType.BYTES:
        return pack_bytes(found)
    array: npt.NDArray[Any] = np.fromiter(found, holder.numpy_dtype, len(found))
    return bytes_of(array if holder is datatype else array.astype(datatype.numpy_dtype))
