"""The way of answers to a connection's transport: whole ones at once, the pieces of streams once a turn of the loop."""

import asyncio
from collections.abc import Sequence
from typing import Final

Buffer = bytes | memoryview
_GATHERED_BYTES: Final = 64 * 1024
"""Up to this size buffers are written as one: cheaper to copy than to hand over in pieces."""


class AnswerWriter:
    """
    Writes in the order of its calls. Belongs to one connection, which calls `connected` first.

    Pieces that are streamed in one turn of the event loop leave in one write when it is over, or sooner: when they are
    64 KiB, or something is written behind them.
    """

    __slots__ = ("_loop", "_pieces", "_pieces_bytes", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0

    def connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def lost(self) -> None:
        """The connection is gone: nothing is written any more."""
        self._transport = None
        self._pieces.clear()
        self._pieces_bytes = 0

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not taken yet."""
        return 0 if self._transport is None else self._pieces_bytes + self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write at once."""
        if self._pieces:
            self.flush()
        if self._transport is not None:
            self._transport.write(data)

    def write_answer(self, head: bytes, parts: Sequence[Buffer], size: int) -> None:
        """Write a head and a body of `size` bytes at once. Large parts are not copied."""
        if size <= _GATHERED_BYTES:
            self.write(b"".join([head, *parts]))
            return
        self.flush()
        if self._transport is not None:
            self._transport.writelines([head, *parts])

    def stream(self, piece: bytes) -> None:
        """Write a piece soon, together with others of this turn of the loop."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(piece)
        self._pieces_bytes += len(piece)
        if self._pieces_bytes > _GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits for the end of the turn."""
        pieces = self._pieces
        if not pieces:
            return
        self._pieces = []
        self._pieces_bytes = 0
        if self._transport is not None:
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
