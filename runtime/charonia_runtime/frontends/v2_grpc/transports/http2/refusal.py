"""Streams that lead to no call."""

import asyncio
from typing import Final

from charonia_runtime.wires.http2.stream import Stream

_PATIENCE_SECONDS: Final = 0.05


class Refusal:
    """
    Answers a stream that is refused: with its first data if it is gRPC, else with its end; or a moment later, where
    the client sends nothing.

    Not with its head: what follows may break HTTP/2's rules, which is the better answer, and clients of grpc.aio take a
    status that comes while they write their first message for an internal error.
    """

    __slots__ = ("_block", "_patience", "_stream", "_text")

    def __init__(self, stream: Stream, block: bytes, text: bytes = b"") -> None:
        """`block` is the whole answer, or what stands before `text` for a client that speaks no gRPC."""
        self._stream = stream
        self._block = block
        self._text = text
        self._patience = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self.ended)

    def data(self, _piece: memoryview) -> None:
        if not self._text:
            self.ended()

    def ended(self) -> None:
        self._patience.cancel()
        if self._text:
            self._stream.respond(self._block, (self._text,), b"")
        else:
            self._stream.send_trailers(self._block)

    def paused(self) -> None:
        """Nothing: an answer is on its way."""

    def aborted(self, _code: int) -> None:
        self._patience.cancel()
