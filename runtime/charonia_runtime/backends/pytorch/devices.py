"""Where an instance runs: requests' arrays to tensors there, results back to arrays."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.pytorch.library import datatypes, require_cuda
from charonia_runtime.core.config import InstanceKind, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceArray, DeviceBuffer


class Device(Protocol):
    """What an instance needs of its device. Tensors stay there until `to_host`."""

    def stream(self) -> AbstractContextManager[Any]:
        """A context, to be entered for each execution: inside, torch puts its work into this instance's stream."""

    reads_devices: bool
    """Whether inputs may stay on a GPU until `from_device` takes them, and outputs may be kept there."""

    def from_host(self, array: npt.NDArray[Any], datatype: DataType) -> Any:
        """A copy of `array` on the device."""

    def from_device(self, array: DeviceArray) -> Any:
        """A copy of `array`, which lies on a GPU, on this device; complete before what follows in the stream."""

    def keep(self, tensor: Any, datatype: DataType) -> DeviceArray | None:
        """A copy of `tensor` that stays on its GPU, complete after `wait`; None where it does not lie on one."""

    def wait(self) -> None:
        """Until the device has finished what this instance gave it."""

    def to_host(self, tensors: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Copies of `tensors`, wherever they lie, in memory that nobody else writes to. BF16 as bits."""

    def clean(self) -> None:
        """Give memory that is cached but not used back to the system."""


def device_name(placement: Placement) -> str | None:
    """The name that torch has for the placement; None where the model itself says where its parts are."""
    match placement.kind:
        case InstanceKind.GPU:
            return f"cuda:{placement.device_id}"
        case InstanceKind.MODEL:
            return None
        case _:
            return "cpu"


def open_device(torch: Any, placement: Placement) -> Device:
    """Raises UnsupportedError for a GPU that torch cannot use."""
    if placement.kind is InstanceKind.GPU:
        require_cuda(torch, placement.device_id)
        return CudaDevice(torch, placement.device_id)
    return HostDevice(torch)


class HostDevice:
    """The processor. Also where models that are spread over devices get their inputs."""

    reads_devices = False

    def __init__(self, torch: Any) -> None:
        self._from_numpy: Callable[[npt.NDArray[Any]], Any] = torch.from_numpy
        self._bfloat16, self._int16 = torch.bfloat16, torch.int16

    def stream(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def from_host(self, array: npt.NDArray[Any], datatype: DataType) -> Any:
        tensor = self._from_numpy(array.copy())
        return tensor.view(self._bfloat16) if datatype is DataType.BF16 else tensor

    def from_device(self, array: DeviceArray) -> Any:
        return self.from_host(array.to_host(), array.datatype)

    def keep(self, tensor: Any, datatype: DataType) -> DeviceArray | None:  # noqa: ARG002 - nothing lies on a GPU
        return None

    def wait(self) -> None:
        pass

    def to_host(self, tensors: Sequence[Any]) -> list[npt.NDArray[Any]]:
        return [self._array(tensor) for tensor in tensors]

    def _array(self, tensor: Any) -> npt.NDArray[Any]:
        if tensor.dtype is self._bfloat16:
            bits = tensor.contiguous().view(self._int16).numpy(force=True)
            return np.array(bits.view(DataType.BF16.numpy_dtype))
        return np.array(tensor.numpy(force=True), order="C")

    def clean(self) -> None:
        pass


class CudaDevice:
    """One GPU, with a stream of its own, so that instances there do not wait for each other."""

    reads_devices = True

    def __init__(self, torch: Any, device_id: int) -> None:
        self._torch = torch
        self._copier = TorchCopier(torch)
        self._device = torch.device("cuda", device_id)
        self._stream = torch.cuda.Stream(self._device)
        self._dtypes = {datatype: dtype for dtype, datatype in datatypes(torch).items()}

    def stream(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._torch.cuda.stream(self._stream)
        return stream

    def from_host(self, array: npt.NDArray[Any], datatype: DataType) -> Any:
        # torch gives pinned memory out again only after the copies from it have run.
        dtype = self._dtypes[datatype]
        pinned = self._torch.empty(array.shape, dtype=dtype, pin_memory=True)
        _bits(self._torch, pinned)[...] = array
        return pinned.to(self._device, non_blocking=True)

    def from_device(self, array: DeviceArray) -> Any:
        # A copy in any case: a model may write to its inputs, and the memory may be another model's or a client's.
        return self._torch.from_dlpack(array).to(self._device, non_blocking=True, copy=True)

    def keep(self, tensor: Any, datatype: DataType) -> DeviceArray | None:
        if not tensor.is_cuda:
            return None
        # A copy in any case: a model may give out a tensor that it keeps and changes.
        kept = tensor.detach().clone(memory_format=self._torch.contiguous_format)
        size = kept.numel() * kept.element_size()
        buffer = DeviceBuffer(kept.data_ptr(), size, kept.device.index, kept, self._copier)
        return DeviceArray(datatype, tuple(kept.shape), buffer)

    def wait(self) -> None:
        self._stream.synchronize()

    def to_host(self, tensors: Sequence[Any]) -> list[npt.NDArray[Any]]:
        copies: list[Any] = []
        for tensor in tensors:
            pinned = self._torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copies.append(pinned.copy_(tensor.detach(), non_blocking=True))
        self._stream.synchronize()
        return [_bits(self._torch, pinned) for pinned in copies]

    def clean(self) -> None:
        self._torch.cuda.empty_cache()


class TorchCopier:
    """A `core.device.DeviceCopier` by torch, for the memory of any GPU that it can use."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def read(self, source: DeviceBuffer) -> memoryview:
        host: npt.NDArray[np.uint8] = self._bytes(source).cpu().numpy()
        return host.data

    def write(self, target: DeviceBuffer, source: memoryview | DeviceBuffer) -> None:
        written = self._bytes(target[: source.nbytes])
        if isinstance(source, DeviceBuffer):
            written.copy_(self._bytes(source))
        else:
            # A copy, because torch wants memory that it may write to.
            written.copy_(self._torch.from_numpy(np.array(np.frombuffer(source, np.uint8))))
        self._torch.cuda.current_stream(written.device).synchronize()

    def _bytes(self, buffer: DeviceBuffer) -> Any:
        return self._torch.from_dlpack(DeviceArray(DataType.UINT8, (buffer.nbytes,), buffer))


def _bits(torch: Any, tensor: Any) -> npt.NDArray[Any]:
    """The memory of a contiguous tensor of the host as an array; BF16 as bits."""
    if tensor.dtype is torch.bfloat16:
        bits: npt.NDArray[Any] = tensor.view(torch.int16).numpy()
        return bits.view(DataType.BF16.numpy_dtype)
    array: npt.NDArray[Any] = tensor.numpy()
    return array
