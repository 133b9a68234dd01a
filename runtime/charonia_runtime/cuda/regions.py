"""Memory on a GPU that another process has allocated and given us the IPC handle of."""

import logging
import sys
import threading

from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.cuda.runtime import Cuda

logger = logging.getLogger(__name__)


class InterprocessMemory:
    """
    Opens handles. The bindings are imported, and a device is set up, with the first one.

    Implements `engine.shared_memory.CudaMemory`.
    """

    def __init__(self, cuda: Cuda | None = None) -> None:
        """`cuda` is for tests; else it is opened when it is needed."""
        self._cuda = cuda
        self._copier: CudaCopier | None = None
        self._guard = threading.Lock()

    def map(self, raw_handle: bytes, device_id: int, byte_size: int) -> DeviceBuffer:
        """
        The first `byte_size` bytes of the allocation; it is closed when nobody knows the buffer any more.

        Raises InferenceError when there is no such device or handle, or the allocation is smaller.
        """
        cuda, copier = self._open()
        with cuda.on(device_id):
            address, available = cuda.open_handle(raw_handle)
            if not 0 < byte_size <= available:
                cuda.close_handle(address)
                raise InvalidArgumentError(f"the allocation has {available} bytes, the region {byte_size}")
        return DeviceBuffer(address, byte_size, device_id, _Mapping(cuda, address), copier)

    def _open(self) -> tuple[Cuda, CudaCopier]:
        with self._guard:
            if self._cuda is None:
                self._cuda = Cuda.open("gpu")
            if self._copier is None:
                self._copier = CudaCopier(self._cuda)
            return self._cuda, self._copier


class _Mapping:
    """One opened handle. CUDA counts how often the same allocation was opened."""

    __slots__ = ("_address", "_cuda")

    def __init__(self, cuda: Cuda, address: int) -> None:
        self._cuda = cuda
        self._address = address

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        try:
            self._cuda.close_handle(self._address)
        except InferenceError as error:
            logger.warning("an IPC handle was not closed: %s", error)
