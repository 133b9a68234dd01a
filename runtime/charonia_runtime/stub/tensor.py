"""`pb_utils.Tensor`: a named array that comes from the server, from numpy or through DLPack."""
# ruff: noqa: SLF001  # tensors from the server are filled in without `__init__`

from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.dlpack import CPU
from charonia_runtime.core.tensor import Tensor as WireTensor
from charonia_runtime.core.tensor import pack_bytes
from charonia_runtime.ipc.packing import Packer, TensorPlace, View
from charonia_runtime.stub import dlpack
from charonia_runtime.stub.arguments import text
from charonia_runtime.stub.exceptions import TritonModelException, refuse

_DATATYPES: dict[np.dtype[Any], DataType] = {
    datatype.numpy_dtype: datatype
    for datatype in DataType
    if datatype not in {DataType.BF16, DataType.INVALID} and datatype.numpy_dtype.isnative
}
"""What arrays hold that are sent as they are."""
_SIGNATURE = "c_python_backend_utils.Tensor(arg0: str, arg1: numpy.ndarray)"


class Tensor:
    """One input or output. Inputs lie in shared memory: they are valid until their request is answered."""

    __slots__ = ("_array", "_datatype", "_foreign", "_name", "_shape", "_wire")

    def __init__(self, name: Any, array: Any) -> None:
        if type(name) is not str:
            name = _text(name, array)
        if not isinstance(array, np.ndarray):
            raise refuse(_SIGNATURE, name, array)
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        datatype = _DATATYPES.get(array.dtype, DataType.INVALID)
        if datatype is DataType.INVALID:
            datatype, array = _unusual(array)
        elif datatype is not DataType.BYTES and not array.flags.c_contiguous:
            array = np.array(array, order="C")
        self._name: str = name
        self._datatype = datatype
        self._array: npt.NDArray[Any] | None = array
        self._shape = array.shape
        self._wire: memoryview | None = None
        self._foreign: Any = None

    @classmethod
    def _of(
        cls, name: str, datatype: DataType, shape: tuple[int, ...], data: memoryview | None, foreign: Any = None
    ) -> "Tensor":
        """A tensor over bytes in wire encoding, or over a foreign object on a device."""
        tensor = cls.__new__(cls)
        tensor._name = name
        tensor._datatype = datatype
        tensor._shape = shape
        tensor._wire = data
        tensor._array = None
        tensor._foreign = foreign
        return tensor

    @classmethod
    def received(cls, place: TensorPlace, body: memoryview, view: View) -> "Tensor":
        """Not for models: the input that lies in a frame at `place`."""
        tensor = cls.__new__(cls)
        tensor._name, tensor._datatype, tensor._shape, _, _, _ = place
        tensor._wire = place.data(body, view)
        tensor._array = None
        tensor._foreign = None
        return tensor

    def pack(self, packer: Packer) -> None:
        """Not for models: add the tensor to a frame."""
        array = self._array
        if array is None or self._wire is not None or self._datatype is DataType.BYTES:
            packer.add_tensor(self.to_wire())
        else:
            packer.add_array(self._name, self._datatype, self._shape, array)

    @staticmethod
    def from_wire(tensor: WireTensor) -> "Tensor":
        """Not for models: a tensor that has come from the server."""
        return Tensor._of(tensor.name, tensor.datatype, tensor.shape, tensor.buffer)

    def to_wire(self) -> WireTensor:
        """Not for models: the tensor as it is sent."""
        array = self._array
        if array is None:
            data = self._wire if self._wire is not None else dlpack.host_bytes(self._foreign)
        elif self._datatype is DataType.BYTES:
            data = pack_bytes([_encoded(element) for element in array.reshape(-1).tolist()])
        elif self._wire is not None:
            data = self._wire  # the array is a view of it
        else:
            data = array.reshape(-1).view(np.uint8).data
        return WireTensor(self._name, self._datatype, self._shape, data)

    def name(self) -> str:
        return self._name

    def shape(self) -> list[int]:
        return list(self._shape)

    def triton_dtype(self) -> DataType:
        return self._datatype

    def is_cpu(self) -> bool:
        return self._foreign is None

    def as_numpy(self) -> npt.NDArray[Any]:
        """The elements; always the same array, so that changes in place are seen by whoever reads it later."""
        if self._array is None:
            if self._wire is None:
                raise TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")
            if self._datatype is DataType.BF16:
                raise TritonModelException(
                    "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
                )
            if self._datatype is DataType.BYTES:
                self._array = WireTensor(self._name, self._datatype, self._shape, self._wire).as_numpy()
            else:
                self._array = np.frombuffer(self._wire, self._datatype.numpy_dtype).reshape(self._shape)
        return self._array

    def to_dlpack(self, stream: Any = None) -> Any:
        """A capsule over the tensor's own memory."""
        if self._datatype is DataType.BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        if self._foreign is not None:
            return self._foreign.__dlpack__(stream=stream) if stream is not None else self._foreign.__dlpack__()
        data = self._wire if self._wire is not None else self.to_wire().buffer
        return dlpack.export(data, self._datatype, self._shape)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self.to_dlpack(stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._foreign is not None:
            kind, number = self._foreign.__dlpack_device__()
            return int(kind), int(number)
        return CPU, 0

    @staticmethod
    def from_dlpack(name: str, obj: Any) -> "Tensor":
        """A tensor over the memory of a capsule, or of anything that makes one."""
        name = _text(name, obj)
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        found = dlpack.read(obj)
        return Tensor._of(name, found.datatype, found.shape, found.data, found.foreign)


def _text(name: object, array: object) -> str:
    try:
        return text(name)
    except TypeError:
        raise refuse(_SIGNATURE, name, array) from None


def _unusual(array: npt.NDArray[Any]) -> tuple[DataType, npt.NDArray[Any]]:
    """Arrays that no data type is made for: fixed-size bytes, another byte order, or the bfloat16 of ml_dtypes."""
    if array.dtype.kind == "S":
        return DataType.BYTES, array
    native = DataType.from_numpy(array.dtype.newbyteorder("<"))
    if native is not DataType.INVALID and array.dtype.kind != "U":
        return native, np.array(array, dtype=native.numpy_dtype, order="C")
    if array.dtype.name == "bfloat16":
        return DataType.BF16, np.array(array, order="C").view(np.uint16)
    raise TritonModelException("NumPy dtype is not supported.")


def _encoded(element: object) -> bytes:
    return element if isinstance(element, bytes) else str(element).encode()
