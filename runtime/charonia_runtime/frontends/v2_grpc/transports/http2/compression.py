"""Compressed messages: gzip and deflate (which has a zlib frame), both ways."""

import asyncio
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from charonia_runtime.frontends.v2_grpc.calls import Buffer, Parts
from charonia_runtime.frontends.v2_grpc.options import COMPRESSION_LEVELS
from charonia_runtime.frontends.v2_grpc.status import StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError
from charonia_runtime.protocols.v2_proto import MAX_MESSAGE_BYTES

IDENTITY: Final = "identity"
ENCODINGS: Final = ("gzip", "deflate")
"""What is understood, in the order in which it is chosen for answers."""

_WINDOW: Final = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_LEVELS: Final = dict(zip(COMPRESSION_LEVELS, (0, 1, 6, 9), strict=True))
_INFLATED_BYTES: Final = 64 << 20
_INFLATION: Final = 64
"""
A message may become `_INFLATED_BYTES`, or `_INFLATION` times what was sent, whichever is more: tensors hardly ever
shrink so much, and bombs of a megabyte would take a gigabyte.
"""
_INFLATING_THREADS: Final = 2
_INLINE_INFLATION_BYTES: Final = 1024
_INLINE_DEFLATION_BYTES: Final = 32 * 1024
"""Up to these sizes the work is done on the event loop, where it takes some hundred microseconds at most."""


def chosen_encoding(accepted: str) -> str:
    """The compression of answers to a client that accepts these; "" for none."""
    names = {name.strip() for name in accepted.split(",")}
    return next((encoding for encoding in ENCODINGS if encoding in names), "")


def inflates_at_once(message: Buffer) -> bool:
    """Whether `inflate` is quick enough for the event loop."""
    return len(message) <= _INLINE_INFLATION_BYTES


def deflates_at_once(parts: Parts) -> bool:
    """Whether `deflate` is quick enough for the event loop."""
    return sum(map(len, parts)) <= _INLINE_DEFLATION_BYTES


def inflate(message: Buffer, encoding: str) -> bytes:
    """The content of a compressed message. Raises CallError when it is broken or becomes too large."""
    most = min(max(_INFLATED_BYTES, len(message) * _INFLATION), MAX_MESSAGE_BYTES)
    inflater = zlib.decompressobj(_WINDOW[encoding])
    try:
        content = inflater.decompress(message, most)
        more = not inflater.eof and bool(inflater.decompress(inflater.unconsumed_tail, 1))
    except zlib.error as error:
        raise CallError(StatusCode.INTERNAL, f"cannot decompress a message that is said to be {encoding}") from error
    if more:
        del content, inflater  # the error keeps this frame, and would keep them
        raise CallError(
            StatusCode.RESOURCE_EXHAUSTED,
            f"a compressed message of {len(message)} bytes holds more than {most} bytes; send it uncompressed",
        )
    if not inflater.eof:
        raise CallError(StatusCode.INTERNAL, f"a message that is said to be {encoding} is cut short")
    return content


def deflate(parts: Sequence[Buffer], encoding: str, level: str) -> bytes:
    """The parts as one compressed message; `level` is one of the flag's."""
    deflater = zlib.compressobj(_LEVELS[level], wbits=_WINDOW[encoding])
    return b"".join([*map(deflater.compress, parts), deflater.flush()])


class Compression:
    """
    What the calls of a listener share: the level of compressed answers, and the threads that large messages inflate in.

    The threads are few, so that there is never more than one message for each on its way to become too large.
    """

    def __init__(self, level: str) -> None:
        self.level = level
        self._threads = ThreadPoolExecutor(_INFLATING_THREADS, thread_name_prefix="grpc-inflate")

    def inflate_beside_the_loop(self, message: Buffer, encoding: str) -> asyncio.Future[bytes]:
        """`inflate`, in another thread."""
        return asyncio.get_running_loop().run_in_executor(self._threads, inflate, message, encoding)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
