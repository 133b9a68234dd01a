"""DLPack capsules without a framework: made over tensors' memory, and read from what others made."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from charonia_runtime.core import dlpack
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.stub.exceptions import TritonModelException

_HOST_DEVICES = {dlpack.CPU, 3, 11}
"""CPU, and host memory pinned for CUDA or ROCm."""
_USED_NAME = b"used_dltensor"
_DATATYPES = {fields: datatype for datatype, fields in dlpack.FIELDS.items()}

_python = ctypes.pythonapi
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))


def export(data: memoryview, datatype: DataType, shape: tuple[int, ...]) -> Any:
    """A capsule over `data`, which stays alive as long as the capsule's consumer wants."""
    array = np.frombuffer(data, np.uint8) if data.nbytes else np.empty(0, np.uint8)
    return dlpack.export(array.ctypes.data, datatype, shape, array)


@dataclass(slots=True)
class Imported:
    """What a capsule holds: bytes on the host, or the foreign object itself where they lie on a device."""

    datatype: DataType
    shape: tuple[int, ...]
    data: memoryview | None
    foreign: Any = None


def read(obj: Any) -> Imported:
    """The tensor in a capsule, or in an object that makes one. Its memory is not copied."""
    foreign = None
    if isinstance(obj, dlpack.Capsule):
        capsule = obj
    elif hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        if int(obj.__dlpack_device__()[0]) not in _HOST_DEVICES:
            foreign = obj
        capsule = obj.__dlpack__()
    else:
        raise TritonModelException(
            "Provided tensor is not supported. Tensor must be a DLPack capsule         or have `__dlpack__` and "
            "`__dlpack_device__` attributes"
        )
    if not _is_valid(capsule, dlpack.NAME):
        raise TritonModelException("The DLPack capsule is not usable: it was consumed before or is none.")
    address = _pointer_of(capsule, dlpack.NAME)
    managed = dlpack.ManagedTensor.from_address(address)
    datatype, shape = _layout(managed.tensor)
    if managed.tensor.device_type not in _HOST_DEVICES:
        return Imported(datatype, shape, None, foreign if foreign is not None else _adopt(capsule))
    _rename(capsule, _USED_NAME)
    size = prod(shape) * datatype.item_size
    if not size:
        _run_deleter(managed, address)
        return Imported(datatype, shape, memoryview(b""))
    memory: Any = (_Owned * size).from_address((managed.tensor.data or 0) + managed.tensor.byte_offset)
    owner = np.frombuffer(memory, np.uint8).view(_Taken)
    owner.release = lambda: _run_deleter(managed, address)
    return Imported(datatype, shape, memoryview(owner))  # type: ignore[arg-type]  # numpy knows buffers only from Python 3.12 on


def host_bytes(foreign: Any) -> memoryview:
    """Copy a tensor on a device to the host, by the framework that it belongs to."""
    for method in ("cpu", "get"):  # torch, cupy
        if hasattr(foreign, method):
            return read(getattr(foreign, method)()).data or memoryview(b"")
    raise TritonModelException(f"a tensor of {type(foreign)} on a device cannot be copied to the host")


_Owned = ctypes.c_uint8


class _Taken(np.ndarray[Any, np.dtype[np.uint8]]):
    """Memory of another library; tells it when nobody looks at it any more."""

    release: Callable[[], None] | None = None

    def __del__(self) -> None:
        if self.release is not None:
            self.release()


def _run_deleter(managed: dlpack.ManagedTensor, address: int) -> None:
    if managed.deleter:
        managed.deleter(address)


def _adopt(capsule: Any) -> Any:
    """Something that can copy to the host, out of a bare capsule on a device."""
    from importlib import import_module

    try:
        return import_module("torch.utils.dlpack").from_dlpack(capsule)
    except ImportError as error:
        raise TritonModelException("a DLPack capsule on a device can only be read where torch is installed") from error


def _layout(tensor: dlpack.DLTensor) -> tuple[DataType, tuple[int, ...]]:
    datatype = _DATATYPES.get((tensor.type_code, tensor.bits))
    if datatype is None or tensor.lanes != 1:
        raise TritonModelException("DLPack data type is not supported.")
    shape = tuple(tensor.shape[index] for index in range(tensor.ndim))
    if tensor.strides:
        expected = 1
        for index in reversed(range(tensor.ndim)):
            if shape[index] != 1 and tensor.strides[index] != expected and prod(shape):
                raise TritonModelException(
                    "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                    "supported."
                )
            expected *= shape[index]
    return datatype, shape
