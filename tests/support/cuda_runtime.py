"""
A stand-in for `cuda.bindings.runtime` and `cuda.bindings.driver`: GPUs whose memory is the host's.

    gpus = FakeGpus(2)                       # gpus.runtime, gpus.driver: what `Cuda` is made of
    cuda = gpus.cuda()
    address = cuda.allocate(16)
    gpus.bytes_at(address, 16)

It is as unkind as the real one may be: whatever goes into a stream runs only when somebody waits for it, memory that
was freed is never given out again and may not be touched, copies must lie within one allocation, and nothing may be
allocated or waited for while a stream is captured.
"""

# ruff: noqa: N801, N802, N803, N815 - the names are CUDA's

import ctypes
import itertools
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from threading import local
from types import SimpleNamespace
from typing import Any

import numpy as np

from charonia_runtime.cuda.runtime import Cuda

Work = Callable[[], None]
PEER_HANDLE = b"allocation of another process".ljust(64, b"\0")


class cudaError_t(IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInvalidDevice = 101
    cudaErrorIllegalAddress = 700
    cudaErrorInvalidResourceHandle = 400
    cudaErrorStreamCaptureUnsupported = 900
    cudaErrorStreamCaptureInvalidated = 901


OK = cudaError_t.cudaSuccess


class cudaMemcpyKind(IntEnum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaStreamCaptureMode(IntEnum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaIpcMemHandle_t:
    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(64)

    def getPtr(self) -> int:
        return ctypes.addressof(self._bytes)

    @property
    def raw(self) -> bytes:
        return self._bytes.raw


class Allocation:
    """Memory that a fake GPU, or the pinned host, has given out."""

    def __init__(self, size: int, device: int | None) -> None:
        self.memory = np.full(size + 256, 0xA5, np.uint8)
        self.address = (self.memory.ctypes.data + 255) // 256 * 256
        self.size = size
        self.device = device
        """None for pinned memory of the host."""
        self.freed = False


class FakeStream:
    def __init__(self, device: int, priority: int) -> None:
        self.device = device
        self.priority = priority
        self.pending: list[Work] = []
        self.captured: list[Work] | None = None
        self.destroyed = False

    def put(self, work: Work) -> None:
        (self.pending if self.captured is None else self.captured).append(work)

    def run(self, count: int | None = None) -> None:
        """What was put in, in its order; only the first `count`, where given."""
        for _ in range(len(self.pending) if count is None else min(count, len(self.pending))):
            self.pending.pop(0)()


class FakeGpus:
    """`count` GPUs of `memory` bytes each. `runtime` and `driver` are the modules' stand-ins."""

    cudaError_t = cudaError_t
    cudaMemcpyKind = cudaMemcpyKind
    cudaStreamCaptureMode = cudaStreamCaptureMode
    cudaIpcMemHandle_t = cudaIpcMemHandle_t
    cudaHostAllocDefault = 0
    cudaStreamNonBlocking = 1
    cudaEventBlockingSync = 1
    cudaEventDisableTiming = 2
    cudaIpcMemLazyEnablePeerAccess = 1

    def __init__(self, count: int = 1, memory: int = 1 << 30) -> None:
        self.count = count
        self.memory = memory
        self.allocations: list[Allocation] = []
        self.streams: dict[int, FakeStream] = {}
        self.events: dict[int, tuple[FakeStream | None, int]] = {}
        self.graphs: dict[int, list[Work]] = {}
        self.launches = 0
        self.copies: Counter[str] = Counter()
        """Copies by where from and where to: `host to gpu`, …"""
        self.peers: dict[bytes, Allocation] = {}
        """Allocations of other processes by their handles."""
        self.opened: list[int] = []
        """Addresses of opened handles, once for each time."""
        self.failing: dict[str, cudaError_t] = {}
        """What the next call of a function answers instead of doing anything."""
        self._numbers = itertools.count(0x7000)
        self._thread = local()
        self.runtime: Any = self
        self.driver: Any = SimpleNamespace(cuMemGetAddressRange=self.cuMemGetAddressRange)

    # --- for tests ---

    def cuda(self) -> Cuda:
        return Cuda(self.runtime, self.driver)

    def peer(self, content: bytes, handle: bytes = PEER_HANDLE, device: int = 0) -> Allocation:
        """An allocation of another process, filled; its handle opens it."""
        allocation = self.peers[handle] = Allocation(len(content), device)
        self.allocations.append(allocation)
        ctypes.memmove(allocation.address, content, len(content))
        return allocation

    def bytes_at(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)

    def in_use(self, *, pinned: bool = False) -> int:
        """How many allocations are not freed."""
        return sum(not one.freed and (one.device is None) == pinned for one in self.allocations)

    def find(self, address: int, size: int = 1) -> Allocation | None:
        """The allocation that holds these bytes; one that is freed holds them too."""
        for one in self.allocations:
            if one.address <= address < one.address + one.size:
                assert address + size <= one.address + one.size, "beyond the end of an allocation"
                return one
        return None

    def stream(self, handle: Any) -> FakeStream:
        found = self.streams[int(handle)]
        assert not found.destroyed
        return found

    def device(self) -> int:
        return getattr(self._thread, "device", 0)

    def _refused(self, function: str) -> cudaError_t | None:
        return self.failing.pop(function, None)

    def _is_capturing(self) -> bool:
        return any(stream.captured is not None for stream in self.streams.values())

    # --- devices ---

    def cudaGetErrorName(self, error: cudaError_t) -> tuple[cudaError_t, bytes]:
        return OK, error.name.encode()

    def cudaGetErrorString(self, error: cudaError_t) -> tuple[cudaError_t, bytes]:
        return OK, f"text of {error.value}".encode()

    def cudaGetDevice(self) -> tuple[cudaError_t, int]:
        return OK, self.device()

    def cudaSetDevice(self, device: int) -> tuple[cudaError_t]:
        if not 0 <= device < self.count:
            return (cudaError_t.cudaErrorInvalidDevice,)
        self._thread.device = device
        return (OK,)

    def cudaDeviceGetStreamPriorityRange(self) -> tuple[cudaError_t, int, int]:
        return OK, 0, -5

    # --- memory ---

    def cudaMalloc(self, size: int) -> tuple[cudaError_t, int | None]:
        return self._allocate("cudaMalloc", size, self.device())

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[cudaError_t, int | None]:
        assert flags == 0
        return self._allocate("cudaHostAlloc", size, None)

    def _allocate(self, function: str, size: int, device: int | None) -> tuple[cudaError_t, int | None]:
        error = self._refused(function)
        if self._is_capturing():
            error = cudaError_t.cudaErrorStreamCaptureUnsupported
        used = sum(one.size for one in self.allocations if one.device == device and not one.freed)
        if error is None and used + size > self.memory:
            error = cudaError_t.cudaErrorMemoryAllocation
        if error is not None:
            return error, None
        self.allocations.append(Allocation(size, device))
        return OK, self.allocations[-1].address

    def cudaFree(self, devPtr: int) -> tuple[cudaError_t]:
        return self._free(devPtr, pinned=False)

    def cudaFreeHost(self, ptr: int) -> tuple[cudaError_t]:
        return self._free(ptr, pinned=True)

    def _free(self, address: int, *, pinned: bool) -> tuple[cudaError_t]:
        for stream in self.streams.values():  # freeing waits for the device
            stream.run()
        one = self.find(address)
        if one is None or one.address != address or one.freed or (one.device is None) != pinned:
            return (cudaError_t.cudaErrorInvalidValue,)
        one.freed = True
        return (OK,)

    def cudaMemcpyAsync(self, dst: int, src: int, count: int, kind: cudaMemcpyKind, stream: int) -> tuple[cudaError_t]:
        if (error := self._refused("cudaMemcpyAsync")) is not None:
            return (error,)
        assert kind is cudaMemcpyKind.cudaMemcpyDefault
        queue = self.stream(stream)
        places = [self.find(dst, count), self.find(src, count)]
        if any(place is not None and place.freed for place in places):
            return (cudaError_t.cudaErrorIllegalAddress,)
        target, origin = ["host" if place is None or place.device is None else "gpu" for place in places]
        self.copies[f"{origin} to {target}"] += 1
        if places[1] is None:
            # What lies in pageable memory is taken at once: it may change after the call.
            assert queue.captured is None, "pageable memory in a captured stream"
            staged = ctypes.string_at(src, count)
            queue.put(lambda: ctypes.memmove(dst, staged, count) and None)
            return (OK,)
        queue.put(lambda: self._move(dst, src, count))
        if places[0] is None:
            assert queue.captured is None, "pageable memory in a captured stream"
            queue.run()
        return (OK,)

    def _move(self, dst: int, src: int, count: int) -> None:
        for address in (dst, src):
            place = self.find(address, count)
            assert place is None or not place.freed, "freed while a copy was under way"
        ctypes.memmove(dst, src, count)

    # --- streams and events ---

    def cudaStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[cudaError_t, int]:
        assert flags == self.cudaStreamNonBlocking
        number = next(self._numbers)
        self.streams[number] = FakeStream(self.device(), priority)
        return OK, number

    def cudaStreamDestroy(self, stream: int) -> tuple[cudaError_t]:
        found = self.stream(stream)
        found.run()
        found.destroyed = True
        return (OK,)

    def cudaStreamSynchronize(self, stream: int) -> tuple[cudaError_t]:
        if (error := self._refused("cudaStreamSynchronize")) is not None:
            return (error,)
        if self.stream(stream).captured is not None:
            return (cudaError_t.cudaErrorStreamCaptureUnsupported,)
        self.stream(stream).run()
        return (OK,)

    def cudaEventCreateWithFlags(self, flags: int) -> tuple[cudaError_t, int]:
        assert flags == self.cudaEventBlockingSync | self.cudaEventDisableTiming
        number = next(self._numbers)
        self.events[number] = (None, 0)
        return OK, number

    def cudaEventRecord(self, event: int, stream: int) -> tuple[cudaError_t]:
        queue = self.stream(stream)
        assert event in self.events
        self.events[event] = (queue, len(queue.pending))
        return (OK,)

    def cudaEventSynchronize(self, event: int) -> tuple[cudaError_t]:
        if (error := self._refused("cudaEventSynchronize")) is not None:
            return (error,)
        queue, count = self.events[event]
        if queue is not None:
            queue.run(count)
        return (OK,)

    def cudaEventDestroy(self, event: int) -> tuple[cudaError_t]:
        del self.events[event]
        return (OK,)

    # --- graphs ---

    def cudaStreamBeginCapture(self, stream: int, mode: cudaStreamCaptureMode) -> tuple[cudaError_t]:
        assert mode is cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        assert self.stream(stream).captured is None
        self.stream(stream).captured = []
        return (OK,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[cudaError_t, int | None]:
        queue = self.stream(stream)
        captured, queue.captured = queue.captured, None
        if (error := self._refused("cudaStreamEndCapture")) is not None or captured is None:
            return error or cudaError_t.cudaErrorInvalidValue, None
        number = next(self._numbers)
        self.graphs[number] = captured
        return OK, number

    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[cudaError_t, int]:
        number = next(self._numbers)
        self.graphs[number] = self.graphs[graph]
        return OK, number

    def cudaGraphLaunch(self, graphExec: int, stream: int) -> tuple[cudaError_t]:
        queue = self.stream(stream)
        for work in self.graphs[graphExec]:
            queue.put(work)
        self.launches += 1
        return (OK,)

    def cudaGraphDestroy(self, graph: int) -> tuple[cudaError_t]:
        del self.graphs[graph]
        return (OK,)

    def cudaGraphExecDestroy(self, graphExec: int) -> tuple[cudaError_t]:
        del self.graphs[graphExec]
        return (OK,)

    # --- memory of other processes ---

    def cudaIpcOpenMemHandle(self, handle: cudaIpcMemHandle_t, flags: int) -> tuple[cudaError_t, int | None]:
        assert flags == self.cudaIpcMemLazyEnablePeerAccess
        found = self.peers.get(handle.raw)
        if found is None or found.device != self.device():
            return cudaError_t.cudaErrorInvalidResourceHandle, None
        self.opened.append(found.address)
        return OK, found.address

    def cudaIpcCloseMemHandle(self, devPtr: int) -> tuple[cudaError_t]:
        self.opened.remove(devPtr)
        return (OK,)

    def cuMemGetAddressRange(self, dptr: int) -> tuple[int, int, int]:
        found = self.find(dptr)
        return (0, found.address, found.size) if found is not None else (1, 0, 0)
