"""
Memory and tensors that lie on a device, for those who know no device.

Who makes a buffer brings the `DeviceCopier` that can reach it: a framework, or the CUDA runtime. Everybody else passes
buffers on, cuts rows from them, and has them copied to the host where the tensor must leave. What is in a buffer is
complete when the buffer is handed on: whoever filled it has waited for the device.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from charonia_runtime.core import dlpack
from charonia_runtime.core.datatypes import DataType


class DeviceCopier(Protocol):
    """
    Moves bytes between a device and the host. Any thread may call; the bytes are there when a method returns.

    Raises InternalError with the device's text.
    """

    def read(self, source: "DeviceBuffer") -> memoryview:
        """The bytes of `source`, in host memory that is nobody else's."""

    def write(self, target: "DeviceBuffer", source: "memoryview | DeviceBuffer") -> None:
        """Copy `source` to the beginning of `target`, which is large enough."""


@dataclass(slots=True)
class DeviceBuffer:
    """`nbytes` bytes at `address` of GPU `device_id`. They stay allocated as long as `owner` lives."""

    address: int
    nbytes: int
    device_id: int
    owner: object = field(repr=False)
    copier: DeviceCopier = field(repr=False)

    def __getitem__(self, part: slice) -> "DeviceBuffer":
        """A part of the same memory, by bytes; only steps of 1."""
        start, end, _ = part.indices(self.nbytes)
        return DeviceBuffer(self.address + start, max(end - start, 0), self.device_id, self.owner, self.copier)

    def to_host(self) -> memoryview:
        """A copy in host memory. Raises InternalError."""
        return self.copier.read(self) if self.nbytes else memoryview(b"")

    def fill(self, source: "memoryview | DeviceBuffer") -> None:
        """Copy `source`, which is no longer than this, to the beginning. Raises InternalError."""
        if source.nbytes:
            self.copier.write(self, source)


@dataclass(slots=True)
class DeviceArray:
    """
    A row-major tensor in a device buffer: as much of an array as batches need, and DLPack for frameworks.

    Frameworks take it without a copy: `torch.from_dlpack(array)`.
    """

    datatype: DataType
    shape: tuple[int, ...]
    buffer: DeviceBuffer

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def reshape(self, shape: tuple[int, ...]) -> "DeviceArray":
        """The same elements in another shape, which has as many; no size may be -1."""
        return DeviceArray(self.datatype, shape, self.buffer)

    def to_host(self) -> npt.NDArray[Any]:
        """A copy as an array of the host; BF16 as bits. Raises InternalError."""
        return np.frombuffer(self.buffer.to_host(), self.datatype.numpy_dtype).reshape(self.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.buffer.device_id

    def __dlpack__(self, *, stream: Any = None, **_newer: Any) -> Any:
        """A capsule for one consumer. No stream has to wait: the contents are complete."""
        return dlpack.export(
            self.buffer.address, self.datatype, self.shape, self.buffer, device=self.__dlpack_device__()
        )


AnyArray = Union[npt.NDArray[Any], DeviceArray]  # noqa: UP007 - numpy's alias has no `|` at run time
"""A tensor's elements, wherever they lie."""


def on_host(array: AnyArray) -> npt.NDArray[Any]:
    """The array itself, or a copy where it lies on a device. Raises InternalError."""
    return array.to_host() if isinstance(array, DeviceArray) else array
