"""Content encodings, with Triton's choices."""

import zlib
from collections.abc import Sequence
from typing import Final

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.wires.inflation import Inflation

_WINDOW: Final = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_DETECT_BOTH: Final = zlib.MAX_WBITS | 32
_LEVEL: Final = 6

ENCODINGS: Final = frozenset(_WINDOW)


def decompression(body: bytes | memoryview, maximum_bytes: int) -> Inflation:
    """A gzip or zlib stream, whichever it is, to be decompressed."""
    return Inflation(body, _DETECT_BOTH, maximum_bytes)


def content_of(inflation: Inflation, maximum_bytes: int) -> memoryview:
    """
    What a body became.

    A stream that is cut short gives what there is of it, one that is none at all gives nothing.

    Raises InvalidArgumentError when the content is larger than `maximum_bytes`.
    """
    if inflation.is_too_large:
        raise InvalidArgumentError(
            f"Decompressed data size exceeds the maximum allowed value of {maximum_bytes} bytes. Use "
            "--http-max-input-size to increase the limit."
        )
    return memoryview(inflation.content)


def compress(parts: Sequence[bytes | memoryview], encoding: str) -> bytes:
    """The parts as one stream of `encoding`, `gzip` or `deflate` (which has a zlib frame)."""
    deflater = zlib.compressobj(_LEVEL, wbits=_WINDOW[encoding])
    return b"".join([*map(deflater.compress, parts), deflater.flush()])


def choose_encoding(accepted: str) -> str:
    """The encoding of an answer for an Accept-Encoding header: the first with the highest quality; "" for none."""
    best, best_quality = "", 0.0
    for entry in accepted.split(","):
        name, _, parameter = entry.strip().partition(";")
        quality = 1.0
        if parameter:
            key, _, value = parameter.strip().partition("=")
            try:
                quality = float(value)
            except ValueError:
                continue
            if key.strip() != "q":
                continue
        if name.strip() in {"identity", *ENCODINGS} and quality > best_quality:
            best, best_quality = name.strip(), quality
    return "" if best == "identity" else best
