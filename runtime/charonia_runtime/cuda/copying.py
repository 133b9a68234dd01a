"""Copies between device buffers and the host by the CUDA runtime, for those who have no stream of their own."""

import threading

import numpy as np

from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.cuda.runtime import Cuda, Stream


class CudaCopier:
    """A `core.device.DeviceCopier` for the memory of any GPU. One stream for each of them, made when it is needed."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._guard = threading.Lock()
        self._streams: dict[int, Stream] = {}

    def read(self, source: DeviceBuffer) -> memoryview:
        copy = np.empty(source.nbytes, np.uint8)
        self._copy(copy.ctypes.data, source.address, source.nbytes, source.device_id)
        return copy.data

    def write(self, target: DeviceBuffer, source: memoryview | DeviceBuffer) -> None:
        if isinstance(source, DeviceBuffer):
            self._copy(target.address, source.address, source.nbytes, target.device_id)
        else:
            given = np.frombuffer(source, np.uint8)
            self._copy(target.address, given.ctypes.data, source.nbytes, target.device_id)

    def _copy(self, target: int, source: int, size: int, device_id: int) -> None:
        with self._cuda.on(device_id):
            stream = self._stream(device_id)
            self._cuda.copy(target, source, size, stream)
            self._cuda.wait(stream)

    def _stream(self, device_id: int) -> Stream:
        """On the thread's current device, which must be `device_id`."""
        with self._guard:
            if device_id not in self._streams:
                self._streams[device_id] = self._cuda.create_stream()
            return self._streams[device_id]
