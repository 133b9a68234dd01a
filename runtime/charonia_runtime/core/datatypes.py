"""Triton's data types and their four spellings: protocol name, config name, numpy dtype, item size."""

from enum import Enum

import numpy as np
import numpy.typing as npt

_CONFIG_NAMES = {"BYTES": "TYPE_STRING", "<invalid>": "TYPE_INVALID"}
_NUMPY_NAMES = {
    "BOOL": "?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "BF16": "<u2",
}  # fmt: skip


class DataType(Enum):
    """
    A tensor element type; the value is its name on the wire (`FP32`).

    BF16 has no numpy type: its arrays are the raw 16 bits as uint16. BYTES arrays are object arrays of `bytes`.
    """

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"
    BF16 = "BF16"
    INVALID = "<invalid>"

    wire_name: str
    config_name: str
    numpy_dtype: np.dtype[np.generic]
    item_size: int
    """Bytes of one element; 0 for BYTES and INVALID, whose elements have no fixed size."""

    def __init__(self, wire_name: str) -> None:
        self.wire_name = wire_name
        self.config_name = _CONFIG_NAMES.get(wire_name, f"TYPE_{wire_name}")
        self.numpy_dtype = np.dtype(_NUMPY_NAMES.get(wire_name, "object"))
        self.item_size = 0 if self.numpy_dtype.hasobject else self.numpy_dtype.itemsize

    @classmethod
    def from_wire(cls, name: str) -> "DataType":
        """The type called `name` in the protocols (case-sensitive); INVALID when there is none."""
        return _BY_WIRE_NAME.get(name, cls.INVALID)

    @classmethod
    def from_config(cls, name: str) -> "DataType":
        """The type called `name` in a model configuration (`TYPE_FP32`); INVALID when there is none."""
        return _BY_CONFIG_NAME.get(name, cls.INVALID)

    @classmethod
    def from_numpy(cls, dtype: npt.DTypeLike) -> "DataType":
        """
        The type of numpy arrays of `dtype`, in either byte order.

        Strings and objects are BYTES, anything without a name is INVALID.
        """
        found = np.dtype(dtype)
        if found.kind in "OSU":
            return cls.BYTES
        named = _BY_NUMPY_DTYPE.get(found)
        return _BY_NUMPY_DTYPE.get(found.newbyteorder("<"), cls.INVALID) if named is None else named


_BY_WIRE_NAME = {member.wire_name: member for member in DataType if member is not DataType.INVALID}
_BY_CONFIG_NAME = {member.config_name: member for member in DataType}
_BY_NUMPY_DTYPE = {
    member.numpy_dtype: member for member in DataType if member not in {DataType.BF16, DataType.BYTES, DataType.INVALID}
}
