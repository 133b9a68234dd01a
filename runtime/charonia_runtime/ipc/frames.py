"""Frames: the unit that crosses the channel. A fixed header, records, and the bytes of small tensors behind them."""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from charonia_runtime.core.errors import InternalError

HEADER = struct.Struct("<IBBHII")
"""Bytes after the header, kind, flags, entry, number, offset of the data among the bytes after the header."""
_HEADER_BYTES = HEADER.size
_unpack_header = HEADER.unpack_from
ALIGNMENT = 16
"""Data begins at multiples of this many bytes, so that arrays over it are aligned."""
MAX_BODY_BYTES = (1 << 32) - 1
CHILD_BODY_BYTES = 64 << 20
"""The longest body that the server takes from a model's process: what is longer travels in shared memory."""
_RECEIVE_BYTES = 1 << 18


class FrameKind(IntEnum):
    """What a frame says. `number` is that of a batch, or of a call for CALL, SUBMIT, REPLY and CALLED_RESPONSE."""

    # server to child
    AUTO_COMPLETE = 1
    INITIALIZE = 2
    BATCH = 3
    FINALIZE = 4
    REPLY = 5
    CALLED_RESPONSE = 6
    RETURNED = 7
    """A large block of the child's was given back: its memory can be freed."""
    # child to server
    STARTED = 16
    COMPLETED = 17
    INITIALIZED = 18
    FINALIZED = 19
    ANSWER = 20
    FAILURE = 21
    RESPONSE = 22
    ABANDONED = 23
    IS_CANCELLED = 24
    CALL = 25
    SUBMIT = 26
    CANCEL = 27
    NOTICE = 28
    ROOM = 29
    """Asks for a REPLY once the client of a decoupled model's request can take more responses."""
    READINESS = 30
    """What the model's `is_ready` returned, or raised."""
    # both ways
    SEGMENT = 32
    SEGMENT_GONE = 33


class Frame(NamedTuple):
    """
    One received frame. `body` belongs to it alone and is writable where the receiver asked for that.

    `entry` is a count of requests or responses, or the index of the request that the frame is about.
    """

    kind: int
    flags: int
    entry: int
    number: int
    data_offset: int
    body: memoryview


def encode_frame(
    kind: int, pieces: Sequence[bytes | memoryview] = (), *, flags: int = 0, entry: int = 0, number: int = 0
) -> bytes:
    """A frame without inline data: `pieces` one after the other are its body."""
    size = sum(map(len, pieces))
    return b"".join((HEADER.pack(size, kind, flags, entry, number, size), *pieces))


_make_frame = tuple.__new__
"""Makes a `Frame` of its fields in half the time."""


class FrameReader:
    """
    Cuts frames out of a stream of bytes: `space` to receive into, `received` when bytes have arrived.

    Memory grows with what has arrived of a frame, not with the size that its header claims.
    """

    __slots__ = ("_buffer", "_end", "_most", "_start", "_view", "_writable")

    def __init__(self, *, writable: bool, most_bytes: int = MAX_BODY_BYTES) -> None:
        """No frame may have a body of more than `most_bytes`."""
        self._most = most_bytes
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._writable = writable

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        end = self._end
        return self._view[end:] if end else self._view

    def received(self, size: int) -> None:
        self._end += size

    @property
    def is_amid_frame(self) -> bool:
        """Whether the beginning of a frame has arrived and its end has not, once no frame is left to take."""
        return self._end > 0

    def take(self) -> Frame | None:
        """The next frame that is complete; None without. Raises InternalError when the peer sends what is no frame."""
        start, end = self._start, self._end
        begin = start + _HEADER_BYTES
        if begin > end:
            if start:
                self._make_room(_HEADER_BYTES)
            return None
        size, kind, flags, entry, number, data_offset = _unpack_header(self._view, start)
        if data_offset > size or size > self._most:
            raise InternalError(
                f"malformed frame: a body of {size} bytes, at most {self._most} expected, with data at {data_offset}"
            )
        stop = begin + size
        if stop > end:
            self._make_room(_HEADER_BYTES + size)
            return None
        self._start = stop
        body = self._buffer[begin:stop] if self._writable else bytes(self._view[begin:stop])
        return _make_frame(Frame, (kind, flags, entry, number, data_offset, memoryview(body)))

    def _make_room(self, size: int) -> None:
        """Let a frame of `size` bytes in all fit behind what has arrived of it."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > _RECEIVE_BYTES >= size:
                self._buffer = bytearray(_RECEIVE_BYTES)
                self._view = memoryview(self._buffer)
        room = min(size, max(2 * (self._end - self._start), _RECEIVE_BYTES))
        if self._start + room <= len(self._buffer) and self._end < len(self._buffer):
            return
        rest = bytes(self._view[self._start : self._end])
        if room > len(self._buffer):
            self._buffer = bytearray(room)
            self._view = memoryview(self._buffer)
        self._view[: len(rest)] = rest
        self._start, self._end = 0, len(rest)
