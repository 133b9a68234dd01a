"""A named tensor, and the places where its bytes may lie."""

import struct
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceArray, DeviceBuffer
from charonia_runtime.core.errors import InvalidArgumentError

MAXIMUM_RANK = 1024
"""Dimensions of a tensor at most, in requests and configurations: ten times what any library of arrays has."""
_LENGTH = struct.Struct("<I")


@dataclass(slots=True, frozen=True)
class SharedMemoryRef:
    """A piece of a region that a client registered; `offset` and `byte_size` are in bytes from the region's start."""

    region: str
    byte_size: int
    offset: int = 0


@dataclass(slots=True)
class Tensor:
    """
    One named tensor. Never changed after creation, except that the engine replaces a `SharedMemoryRef` by its bytes.

    `data` holds the elements in the wire's encoding: little-endian, packed, row-major; BYTES elements each with a
    4-byte length before them. They may lie on a device: whoever asks for `buffer` or `as_numpy` has them copied to the
    host, once.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    data: memoryview | DeviceBuffer | SharedMemoryRef

    @classmethod
    def from_numpy(cls, name: str, array: npt.NDArray[Any], datatype: DataType | None = None) -> "Tensor":
        """Wrap an array without copying it (strings and non-contiguous arrays are packed). BF16 must be named."""
        found = datatype or DataType.from_numpy(array.dtype)
        if found is DataType.BYTES:
            return cls(name, found, array.shape, pack_bytes(array.reshape(-1).tolist()))
        return cls(name, found, array.shape, bytes_of(array))

    def as_numpy(self) -> npt.NDArray[Any]:
        """
        The elements as an array of `shape`, without a copy but for BYTES.

        Raises InvalidArgumentError when BYTES data is cut short or holds another number of elements. The array is
        read-only where the buffer is.
        """
        buffer = self.buffer
        if self.datatype is DataType.BYTES:
            elements = unpack_bytes(buffer, self.name)
            count = prod(self.shape)
            if len(elements) != count:
                raise InvalidArgumentError(
                    f"expected {count} string elements for inference input '{self.name}', got {len(elements)}"
                )
            array = np.empty(count, dtype=object)
            array[:] = elements
            return array.reshape(self.shape)
        return np.frombuffer(buffer, dtype=self.datatype.numpy_dtype).reshape(self.shape)

    @property
    def buffer(self) -> memoryview:
        """
        The tensor's bytes on the host; copied there now where they lie on a device, which may take long.

        Raises TypeError while they still lie in an unresolved shared-memory region, and InternalError with the
        device's text.
        """
        data = self.data
        if type(data) is memoryview:
            return data
        if isinstance(data, SharedMemoryRef):
            raise TypeError(f"tensor '{self.name}' lies in shared memory that has not been resolved")
        self.data = host = data.to_host()
        return host

    @property
    def on_device(self) -> DeviceArray | None:
        """The elements where they lie on a device; None where they do not."""
        data = self.data
        return DeviceArray(self.datatype, self.shape, data) if isinstance(data, DeviceBuffer) else None

    @property
    def byte_size(self) -> int:
        data = self.data
        return data.byte_size if isinstance(data, SharedMemoryRef) else data.nbytes

    @property
    def element_count(self) -> int:
        return prod(self.shape)


def bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """The bytes of a numeric array in the wire's order, without a copy when it lies so already."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def pack_bytes(elements: Iterable[Any]) -> memoryview:
    """BYTES elements in wire encoding; what is not bytes becomes its text in UTF-8, as Triton's clients do it."""
    pieces: list[bytes] = []
    for element in elements:
        raw = element if isinstance(element, bytes) else _raw(element)
        pieces.append(_LENGTH.pack(len(raw)))
        pieces.append(raw)
    return memoryview(b"".join(pieces))


def _raw(element: Any) -> bytes:
    return bytes(element) if isinstance(element, bytearray | memoryview) else str(element).encode()


def unpack_bytes(buffer: memoryview, name: str) -> list[bytes]:
    """BYTES elements out of their wire encoding. Raises InvalidArgumentError, naming tensor `name`, when one is cut."""
    return _unpack_from(buffer, name, 0, buffer.nbytes)[0]


def unpack_in_parts(buffer: memoryview, name: str, most: int) -> Iterator[list[bytes]]:
    """Yield the same elements, at most so many at a time: one by one they are far larger than in the buffer."""
    at = 0
    while at < buffer.nbytes:
        elements, at = _unpack_from(buffer, name, at, most)
        yield elements


def _unpack_from(buffer: memoryview, name: str, at: int, most: int) -> tuple[list[bytes], int]:
    """At most so many elements from position `at` on, and the position behind them."""
    elements: list[bytes] = []
    end = buffer.nbytes
    while at < end and len(elements) < most:
        if end - at < _LENGTH.size:
            raise InvalidArgumentError(
                f"incomplete string length indicator for inference input '{name}', expecting {_LENGTH.size} bytes "
                f"but only {end - at} bytes available"
            )
        (length,) = _LENGTH.unpack_from(buffer, at)
        at += _LENGTH.size
        if end - at < length:
            raise InvalidArgumentError(
                f"incomplete string data for inference input '{name}', expecting string of length {length} "
                f"but only {end - at} bytes available"
            )
        elements.append(bytes(buffer[at : at + length]))
        at += length
    return elements, at


def rank_mistake(shape: Sized) -> str:
    """
    Return what is wrong with the number of a shape's dimensions; empty when nothing is.

    Nothing may multiply, print or remember a client's sizes before: the product of many large ones takes a time that
    grows with the square of their number.
    """
    rank = len(shape)
    return "" if rank <= MAXIMUM_RANK else f"has {rank} dimensions, at most {MAXIMUM_RANK} are accepted"


def shape_text(shape: Sequence[int]) -> str:
    """A shape as Triton prints it: `[1,2]`."""
    return f"[{','.join(map(str, shape))}]"
