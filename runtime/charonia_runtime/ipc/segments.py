"""Shared-memory segments: made without a name, mapped by both ends, gone with the last of them."""

import mmap
import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.errors import InternalError

SHARED_MEMORY_DIRECTORY = "/dev/shm"  # noqa: S108  # a file without a name: nobody else can open it
BLOCK_HEADER_BYTES = 64
"""Bytes before every block. The first one is its flag: who got the block writes `RELEASED` when done with it."""
STARTED = struct.Struct("<I")
"""At the very beginning of the first segment: the number of the batch that the child has begun last."""
CANCELLED = struct.Struct("<I")
CANCELLED_OFFSET = 4
"""Behind it: how often requests of this child were cancelled, so that it asks only when that has changed."""
STARTED_BYTES = 64
LENT = 1
RELEASED = 0
LARGE_BYTES = 4 << 20
"""From this size on the owner of a block is told that it has gone back; others are found when the next is made."""

Bytes = npt.NDArray[np.uint8]


class Segment:
    """A piece of shared memory that this process has mapped. `number` names it in records; 0 is never used."""

    __slots__ = ("address", "bytes", "number", "size", "view")

    def __init__(self, number: int, descriptor: int, size: int) -> None:
        self.number = number
        self.size = size
        self.view = memoryview(mmap.mmap(descriptor, size))
        self.bytes: Bytes = np.frombuffer(self.view, np.uint8)
        self.address = self.bytes.ctypes.data


def create_segment_file(size: int) -> int:
    """
    A file descriptor of `size` bytes of shared memory, reserved now rather than at first touch.

    Raises OSError when they are not to be had: a touch would then kill the process instead.
    """
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        descriptor = os.open(SHARED_MEMORY_DIRECTORY, flags | os.O_TMPFILE, 0o600)
    except OSError:  # no such directory, or a file system without unnamed files
        descriptor = os.memfd_create("charonia")
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class SegmentTable:
    """The segments that both ends of a channel have mapped, and blocks of them as the receiver sees them."""

    __slots__ = ("_segments", "returned")

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}
        self.returned: Callable[[], object] | None = None
        """Is called, in any thread, when a borrowed block of `LARGE_BYTES` or more has gone back."""

    def __len__(self) -> int:
        return len(self._segments)

    def add(self, number: int, descriptor: int, size: int) -> Segment:
        """Map a segment and close its descriptor."""
        try:
            segment = self._segments[number] = Segment(number, descriptor, size)
        finally:
            os.close(descriptor)
        return segment

    def remove(self, number: int) -> None:
        """Forget a segment; it is unmapped when the last view of it is gone."""
        self._segments.pop(number, None)

    def view(self, number: int, offset: int, size: int) -> memoryview:
        """A block whose owner knows by itself when it may be used again."""
        return self._find(number, offset, size).view[offset : offset + size]

    def borrow(self, number: int, offset: int, size: int) -> memoryview:
        """A block that goes back to its owner when the last view of it is gone."""
        segment = self._find(number, offset, size)
        array = segment.bytes[offset : offset + size].view(_Borrowed)
        if size >= LARGE_BYTES:
            array.returned = self.returned
        array.flag = segment.bytes[offset - BLOCK_HEADER_BYTES : offset - BLOCK_HEADER_BYTES + 1]
        return memoryview(array)  # type: ignore[arg-type]  # numpy's stubs know buffers only from Python 3.12 on

    def address(self, number: int) -> int:
        """Where a segment begins in this process."""
        return self._segments[number].address

    def _find(self, number: int, offset: int, size: int) -> Segment:
        segment = self._segments.get(number)
        if segment is None or offset < BLOCK_HEADER_BYTES or offset + size > segment.size:
            raise InternalError(f"malformed frame: no {size} bytes at {offset} of shared-memory segment {number}")
        return segment


class _Borrowed(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a block; sets the block's flag when it is collected."""

    flag: Bytes | None = None
    returned: Callable[[], object] | None = None

    def __del__(self) -> None:
        if self.flag is not None:
            self.flag[0] = RELEASED
            if self.returned is not None:
                self.returned()
