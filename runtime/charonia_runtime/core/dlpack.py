"""
DLPack capsules without a framework: made over memory of ours, for whoever reads them.

The layout of the structures is version 0 of the standard's C header, which every framework still speaks.
"""

import ctypes
from math import prod
from typing import Any, Final

from charonia_runtime.core.datatypes import DataType

CPU: Final = 1
CUDA: Final = 2
NAME: Final = b"dltensor"
FIELDS: Final = {
    DataType.INT8: (0, 8), DataType.INT16: (0, 16), DataType.INT32: (0, 32), DataType.INT64: (0, 64),
    DataType.UINT8: (1, 8), DataType.UINT16: (1, 16), DataType.UINT32: (1, 32), DataType.UINT64: (1, 64),
    DataType.FP16: (2, 16), DataType.FP32: (2, 32), DataType.FP64: (2, 64),
    DataType.BF16: (4, 16), DataType.BOOL: (6, 8),
}  # fmt: skip
"""The standard's type code and width in bits."""


class DLTensor(ctypes.Structure):
    """The standard's description of a tensor; strides that are NULL mean row-major."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ManagedTensor(ctypes.Structure):
    """A tensor and what to call when nobody needs it any more."""

    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_python = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", _python)
)
_is_valid_address = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer_of_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)
Capsule: Final = type(_new_capsule(1, b"probe", _Destructor()))

_exported: dict[int, tuple[ManagedTensor, object]] = {}
"""Address of a structure that is in use elsewhere → the structure and all that it points to."""


@_Deleter  # type: ignore[untyped-decorator]  # ctypes says nothing of it
def _delete(address: int) -> None:
    _exported.pop(address, None)


@_Destructor  # type: ignore[untyped-decorator]  # ctypes says nothing of it
def _forget_unused(capsule: int) -> None:
    """A capsule is collected that nobody took the tensor out of: one that was taken has another name."""
    if _is_valid_address(capsule, NAME):
        address = _pointer_of_address(capsule, NAME)
        if address is not None:
            _exported.pop(address, None)


def export(
    address: int, datatype: DataType, shape: tuple[int, ...], owner: object, *, device: tuple[int, int] = (CPU, 0)
) -> Any:
    """
    A capsule over the memory at `address` of `device` (type and id); `owner` lives as long as its consumer wants.

    Raises BufferError for BYTES, which the standard does not know.
    """
    if datatype not in FIELDS:
        raise BufferError(f"DLPack has no type for {datatype.wire_name}")
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    managed = ManagedTensor()
    code, bits = FIELDS[datatype]
    managed.tensor = DLTensor(
        data=address if prod(shape) else None, device_type=device[0], device_id=device[1], ndim=len(shape),
        type_code=code, bits=bits, lanes=1, shape=sizes, strides=None, byte_offset=0,
    )  # fmt: skip
    managed.deleter = _delete
    structure = ctypes.addressof(managed)
    _exported[structure] = (managed, (owner, sizes))
    return _new_capsule(structure, NAME, _forget_unused)
