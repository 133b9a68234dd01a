"""Compressed messages: gzip and deflate (which has a zlib frame), both ways."""

import zlib
from collections.abc import Sequence
from typing import Final

from charonia_runtime.frontends.v2_grpc.calls import Buffer, Parts
from charonia_runtime.frontends.v2_grpc.options import COMPRESSION_LEVELS
from charonia_runtime.frontends.v2_grpc.status import StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError
from charonia_runtime.protocols.v2_proto import MAX_MESSAGE_BYTES
from charonia_runtime.wires.inflation import Inflation

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


def inflation(message: Buffer, encoding: str) -> Inflation:
    """A compressed message, to be decompressed."""
    return Inflation(message, _WINDOW[encoding], _most_bytes(message))


def inflate(message: Buffer, encoding: str) -> bytes:
    """The content of a compressed message, made on the spot. Raises CallError."""
    inflated = inflation(message, encoding)
    inflated.run()
    return content_of(inflated, message, encoding)


def content_of(inflated: Inflation, message: Buffer, encoding: str) -> bytes:
    """The content of a compressed message. Raises CallError when it is broken or became too large."""
    if inflated.is_broken:
        raise CallError(StatusCode.INTERNAL, f"cannot decompress a message that is said to be {encoding}")
    if inflated.is_too_large:
        raise CallError(
            StatusCode.RESOURCE_EXHAUSTED,
            f"a compressed message of {len(message)} bytes holds more than {_most_bytes(message)} bytes; send it "
            "uncompressed",
        )
    if not inflated.is_complete:
        raise CallError(StatusCode.INTERNAL, f"a message that is said to be {encoding} is cut short")
    return inflated.content


def _most_bytes(message: Buffer) -> int:
    return min(max(_INFLATED_BYTES, len(message) * _INFLATION), MAX_MESSAGE_BYTES)


def deflate(parts: Sequence[Buffer], encoding: str, level: str) -> bytes:
    """The parts as one compressed message; `level` is one of the flag's."""
    deflater = zlib.compressobj(_LEVELS[level], wbits=_WINDOW[encoding])
    return b"".join([*map(deflater.compress, parts), deflater.flush()])
