"""The functions of the CUDA runtime that this server calls, with errors instead of status codes."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NewType

from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.installation import install_command

Stream = NewType("Stream", int)
"""A `cudaStream_t` as a number, as frameworks take it."""
_INTERPROCESS_HANDLE_BYTES = 64


def import_bindings(extra: str) -> tuple[Any, Any]:
    """`runtime` and `driver` of `cuda.bindings`. Raises UnavailableError that says how to install `extra`."""
    try:
        from cuda.bindings import driver, runtime
    except ImportError as error:
        raise UnavailableError(
            f"GPU memory needs the cuda-bindings package: {install_command(extra)} ({error})"
        ) from error
    return runtime, driver


class Cuda:
    """
    The CUDA runtime. Thread-safe; the current device is each thread's own.

    Every method raises InternalError with CUDA's name and text of what went wrong. Addresses are plain numbers, and
    one address space holds the host's pinned memory and that of all devices.
    """

    def __init__(self, runtime: Any, driver: Any) -> None:
        """The two modules, or what tests have in their place."""
        self._runtime = runtime
        self._driver = driver
        self._any_direction = runtime.cudaMemcpyKind.cudaMemcpyDefault
        self._copy_async = runtime.cudaMemcpyAsync
        self._wait_stream = runtime.cudaStreamSynchronize
        self._set_device = runtime.cudaSetDevice

    @classmethod
    def open(cls, extra: str) -> "Cuda":
        """Raises UnavailableError where the bindings are not installed."""
        return cls(*import_bindings(extra))

    # --- devices ---

    def use(self, device_id: int) -> None:
        """Make `device_id` this thread's device."""
        (status,) = self._set_device(device_id)
        if status:
            raise self._error("cudaSetDevice", status)

    @contextmanager
    def on(self, device_id: int) -> Iterator[None]:
        """Work on a device for a while, in a thread that has another one otherwise."""
        status, before = self._runtime.cudaGetDevice()
        self._check("cudaGetDevice", status)
        self.use(device_id)
        try:
            yield
        finally:
            self.use(int(before))

    # --- memory ---

    def allocate(self, size: int) -> int:
        """Memory of this thread's device."""
        status, address = self._runtime.cudaMalloc(size)
        self._check("cudaMalloc", status)
        return int(address)

    def free(self, address: int) -> None:
        (status,) = self._runtime.cudaFree(address)
        self._check("cudaFree", status)

    def allocate_pinned(self, size: int) -> int:
        """Memory of the host that devices can read and write by themselves."""
        status, address = self._runtime.cudaHostAlloc(size, self._runtime.cudaHostAllocDefault)
        self._check("cudaHostAlloc", status)
        return int(address)

    def free_pinned(self, address: int) -> None:
        (status,) = self._runtime.cudaFreeHost(address)
        self._check("cudaFreeHost", status)

    def copy(self, target: int, source: int, size: int, stream: Stream) -> None:
        """Copy between any two places, in the stream's turn: both must live until it was waited for."""
        (status,) = self._copy_async(target, source, size, self._any_direction, stream)
        if status:
            raise self._error("cudaMemcpyAsync", status)

    # --- streams ---

    def create_stream(self, *, priority: int = 0) -> Stream:
        """
        A stream of this thread's device that does not wait for its default stream.

        `priority` above 0 is as urgent as the device has it, below 0 as little.
        """
        runtime = self._runtime
        status, least, greatest = runtime.cudaDeviceGetStreamPriorityRange()
        self._check("cudaDeviceGetStreamPriorityRange", status)
        level = greatest if priority > 0 else least if priority < 0 else 0
        status, stream = runtime.cudaStreamCreateWithPriority(runtime.cudaStreamNonBlocking, level)
        self._check("cudaStreamCreateWithPriority", status)
        return Stream(int(stream))

    def destroy_stream(self, stream: Stream) -> None:
        (status,) = self._runtime.cudaStreamDestroy(stream)
        self._check("cudaStreamDestroy", status)

    def wait(self, stream: Stream) -> None:
        """Until everything in the stream is done. The GIL is free meanwhile; the processor may spin."""
        (status,) = self._wait_stream(stream)
        if status:
            raise self._error("cudaStreamSynchronize", status)

    def create_event(self) -> Any:
        """Something to wait for without spinning."""
        runtime = self._runtime
        status, event = runtime.cudaEventCreateWithFlags(runtime.cudaEventBlockingSync | runtime.cudaEventDisableTiming)
        self._check("cudaEventCreateWithFlags", status)
        return event

    def destroy_event(self, event: Any) -> None:
        (status,) = self._runtime.cudaEventDestroy(event)
        self._check("cudaEventDestroy", status)

    def wait_asleep(self, stream: Stream, event: Any) -> None:
        """Until everything that is in the stream now is done. The thread sleeps meanwhile."""
        (status,) = self._runtime.cudaEventRecord(event, stream)
        self._check("cudaEventRecord", status)
        (status,) = self._runtime.cudaEventSynchronize(event)
        self._check("cudaEventSynchronize", status)

    # --- graphs ---

    def begin_capture(self, stream: Stream) -> None:
        """What this thread puts into the stream from now on is recorded instead of run."""
        runtime = self._runtime
        (status,) = runtime.cudaStreamBeginCapture(
            stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        )
        self._check("cudaStreamBeginCapture", status)

    def end_capture(self, stream: Stream) -> Any:
        """What was recorded, ready to be launched again and again."""
        runtime = self._runtime
        status, graph = runtime.cudaStreamEndCapture(stream)
        self._check("cudaStreamEndCapture", status)
        try:
            status, executable = runtime.cudaGraphInstantiate(graph, 0)
            self._check("cudaGraphInstantiate", status)
        finally:
            runtime.cudaGraphDestroy(graph)
        return executable

    def launch(self, graph: Any, stream: Stream) -> None:
        """Run what was recorded, with the same addresses."""
        (status,) = self._runtime.cudaGraphLaunch(graph, stream)
        if status:
            raise self._error("cudaGraphLaunch", status)

    def destroy_graph(self, graph: Any) -> None:
        (status,) = self._runtime.cudaGraphExecDestroy(graph)
        self._check("cudaGraphExecDestroy", status)

    # --- memory of other processes ---

    def open_handle(self, raw_handle: bytes) -> tuple[int, int]:
        """Map the allocation behind a `cudaIpcMemHandle_t` on this thread's device: its address and size."""
        runtime = self._runtime
        if len(raw_handle) != _INTERPROCESS_HANDLE_BYTES:
            raise InternalError(f"a cudaIpcMemHandle_t has {_INTERPROCESS_HANDLE_BYTES} bytes, got {len(raw_handle)}")
        handle = runtime.cudaIpcMemHandle_t()
        ctypes.memmove(handle.getPtr(), raw_handle, _INTERPROCESS_HANDLE_BYTES)
        status, address = runtime.cudaIpcOpenMemHandle(handle, runtime.cudaIpcMemLazyEnablePeerAccess)
        self._check("cudaIpcOpenMemHandle", status)
        status, base, size = self._driver.cuMemGetAddressRange(int(address))
        if status:
            self.close_handle(int(address))
            raise InternalError(f"cuMemGetAddressRange failed: {status}")
        return int(address), int(base) + int(size) - int(address)

    def close_handle(self, address: int) -> None:
        (status,) = self._runtime.cudaIpcCloseMemHandle(address)
        self._check("cudaIpcCloseMemHandle", status)

    # --- errors ---

    def _check(self, function: str, status: Any) -> None:
        if status:
            raise self._error(function, status)

    def _error(self, function: str, status: Any) -> InternalError:
        _, name = self._runtime.cudaGetErrorName(status)
        _, text = self._runtime.cudaGetErrorString(status)
        return InternalError(f"{function} failed: {text.decode()} ({name.decode()})")
