"""gRPC's frames: each message has a byte that says whether it is compressed and four with its length before it."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

import numpy as np

from charonia_runtime.frontends.v2_grpc.calls import Buffer
from charonia_runtime.frontends.v2_grpc.status import StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError
from charonia_runtime.protocols.v2_proto import MAX_MESSAGE_BYTES

PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = 5

_SMALL_BYTES: Final = 16 * 1024
"""Messages up to this size become bytes, quicker to look into; larger ones stay in a buffer that was never zeroed."""
_DEPOSIT_BYTES: Final = 4 << 20
"""What a message gets room for before it has sent anything; when it has filled that, it gets the room for all of it."""


def check_prefix(flag: int, length: int) -> None:
    """Raise CallError for a message that cannot be taken."""
    if flag > 1:
        raise CallError(StatusCode.INTERNAL, f"a message begins with {flag} where 0 or 1 was expected")
    if length > MAX_MESSAGE_BYTES:
        raise CallError(
            StatusCode.RESOURCE_EXHAUSTED, f"Received message larger than max ({length} vs. {MAX_MESSAGE_BYTES})"
        )


class Assembler:
    """Puts messages together from pieces that end anywhere. Each byte is copied once."""

    __slots__ = ("_buffer", "_filled", "_flag", "_length", "_prefix")

    def __init__(self) -> None:
        self._prefix = b""
        self._flag = 0
        self._length = -1
        """Of the message that has begun; -1 while there is none."""
        self._buffer: memoryview | None = None
        self._filled = 0

    @property
    def is_between_messages(self) -> bool:
        return self._length < 0 and not self._prefix

    def absorb(self, piece: memoryview) -> bool:
        """Take a piece from the middle of a message; False, and nothing happened, for any other."""
        buffer = self._buffer
        if buffer is None:
            return False
        end = self._filled + len(piece)
        if end >= len(buffer):
            return False
        buffer[self._filled : end] = piece
        self._filled = end
        return True

    def feed(self, piece: memoryview) -> Iterator[tuple[int, Buffer]]:
        """
        Take a piece, give what it completes: each message with its flag.

        Raises CallError for a message that cannot be taken; nothing makes sense after that.
        """
        at, end = 0, len(piece)
        while True:
            if self._length < 0:
                if at < end:
                    at = self._begin(piece, at)
                if self._length < 0:
                    return
            if self._buffer is None and end - at >= self._length:
                yield self._flag, bytes(piece[at : at + self._length])
                at += self._length
                self._length = -1
                continue
            if at == end:
                return
            at, buffer = self._fill(piece, at)
            if self._filled == self._length:
                self._buffer = None
                self._filled, self._length = 0, -1
                yield self._flag, bytes(buffer) if len(buffer) <= _SMALL_BYTES else buffer.toreadonly()

    def _begin(self, piece: memoryview, at: int) -> int:
        """Read a prefix; where the message begins."""
        missing = PREFIX_BYTES - len(self._prefix)
        self._prefix += piece[at : at + missing]
        if len(self._prefix) == PREFIX_BYTES:
            self._flag, self._length = PREFIX.unpack(self._prefix)
            self._prefix = b""
            check_prefix(self._flag, self._length)
        return at + missing

    def _fill(self, piece: memoryview, at: int) -> tuple[int, memoryview]:
        """Copy what belongs to the message; where the rest begins, and the buffer."""
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = _room(min(self._length, _DEPOSIT_BYTES))
        elif self._filled == len(buffer):
            whole = _room(self._length)
            whole[: self._filled] = buffer
            buffer = self._buffer = whole
        taken = piece[at : at + len(buffer) - self._filled]
        buffer[self._filled : self._filled + len(taken)] = taken
        self._filled += len(taken)
        return at + len(taken), buffer


def _room(size: int) -> memoryview:
    try:
        return np.empty(size, np.uint8).data
    except MemoryError:
        raise CallError(StatusCode.RESOURCE_EXHAUSTED, f"no memory for a message of {size} bytes") from None
