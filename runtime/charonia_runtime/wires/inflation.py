"""Compressed bodies: most are decompressed in one short step, so that they never wait for one that is huge."""

import zlib
from collections.abc import Callable
from typing import Final, TypeAlias

from charonia_runtime.thread_pools import CODING, PooledCall

Buffer: TypeAlias = bytes | memoryview

_FIRST_INPUT_BYTES: Final = 64 << 10
_FIRST_OUTPUT_BYTES: Final = 512 << 10
"""What the first step reads and makes at most: some milliseconds."""


class Inflation:
    """
    One zlib stream that becomes its content in two steps. The second one, for what is large, waits for smaller ones.

    After `run`, or when `start` says so, `content` is what there is of it: nothing where the stream `is_broken` or its
    content `is_too_large`. `is_complete` tells whether the stream has its end.
    """

    __slots__ = ("_body", "_inflater", "_maximum_bytes", "_pooled", "content", "is_broken", "is_too_large")

    def __init__(self, body: Buffer, window_bits: int, maximum_bytes: int) -> None:
        """`window_bits` are those of `zlib.decompressobj`."""
        self.content = b""
        self.is_broken = False
        self.is_too_large = False
        self._body = memoryview(body)
        self._inflater = zlib.decompressobj(window_bits)
        self._maximum_bytes = maximum_bytes
        self._pooled: PooledCall[bool] | None = None

    @property
    def is_complete(self) -> bool:
        return self._inflater.eof

    def run(self) -> None:
        """Decompress now."""
        if not self._begin():
            self._finish()

    def start(self, go_on: Callable[[], object], fail: Callable[[Exception], object]) -> None:
        """Decompress in threads, then call one of the two on the event loop; `fail` when there is no memory for it."""

        def begun(is_all: bool) -> None:
            if is_all:
                go_on()
            else:
                self._pooled = CODING.start(self._finish, lambda _: go_on(), fail, size=self._expected_bytes)

        self._pooled = CODING.start(self._begin, begun, fail)

    def cancel(self) -> None:
        """Have `start` call nothing any more."""
        if self._pooled is not None:
            self._pooled.cancel()

    @property
    def _expected_bytes(self) -> int:
        """How large the content becomes if the rest is compressed like its beginning."""
        read = min(len(self._body), _FIRST_INPUT_BYTES) - len(self._inflater.unconsumed_tail)
        return min(len(self.content) * len(self._body) // max(read, 1), self._maximum_bytes)

    def _begin(self) -> bool:
        """Decompress the beginning. Whether that was all."""
        most = min(_FIRST_OUTPUT_BYTES, self._maximum_bytes + 1)
        head = self._body[:_FIRST_INPUT_BYTES]
        self._inflate(head, most)
        has_all = len(head) == len(self._body) and len(self.content) < most
        return has_all or self.is_complete or self.is_broken or self.is_too_large

    def _finish(self) -> bool:
        """Decompress what is left, all of it."""
        rest = b"".join([self._inflater.unconsumed_tail, self._body[_FIRST_INPUT_BYTES:]])
        self._inflate(rest, self._maximum_bytes + 1 - len(self.content))
        return True

    def _inflate(self, data: Buffer, most: int) -> None:
        """Add at most `most` bytes to the content."""
        try:
            more = self._inflater.decompress(data, most)
        except zlib.error:
            self.is_broken = True
        else:
            self.content = b"".join([self.content, more]) if self.content else more
            self.is_too_large = len(self.content) > self._maximum_bytes
        if self.is_broken or self.is_too_large:
            self.content = b""
