"""
Limits on JSON documents, applied before anything is made of them.

A text of 60 MB, which is 60 KB on the wire, may hold 20 million arrays: their objects take gigabytes, and making them
holds up every other client. So entries are counted in the text, in pieces that take a few milliseconds.
"""

import re
from collections.abc import Iterator
from typing import Final

from charonia_runtime.core.errors import InvalidArgumentError

MAXIMUM_ENTRIES: Final = 300_000
"""Objects, arrays and members of objects in one document."""
MAXIMUM_VALUES: Final = 2_000_000
"""Values in one document. Long arrays in `data` of inference requests are read apart and do not count."""
UNLIMITED_BYTES: Final = 64 * 1024
"""Texts up to this size hold less than any limit."""

_SLOW_BYTES: Final = 256 * 1024
_MAYBE_SLOW_BYTES: Final = 16 * 1024
_SLOW_ENTRIES: Final = 1000
"""Of one kind; each costs some microseconds, numbers and strings much less."""
_PIECE_BYTES: Final = 256 * 1024
_OUTSIDE: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_INSIDE: Final = re.compile(rb"(?:[^\"\\]++|\\.)*+", re.DOTALL)
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def check_size(text: bytes) -> None:
    """Raise InvalidArgumentError for a document with too many entries or values; strings may hold anything."""
    if len(text) > UNLIMITED_BYTES and not _fits(_pieces(text)) and not _fits(_without_strings(text)):
        raise too_large()


def reads_slowly(text: bytes) -> bool:
    """Whether reading a document may take more than some milliseconds, so that it belongs in a thread."""
    if len(text) < _MAYBE_SLOW_BYTES:
        return False
    return len(text) >= _SLOW_BYTES or any(text.count(char) > _SLOW_ENTRIES for char in (b"{", b"[", b":"))


def too_large() -> InvalidArgumentError:
    """Return the refusal of a document that is over a limit."""
    return InvalidArgumentError(
        f"the request JSON has more than {MAXIMUM_ENTRIES} objects, arrays and members, or more than {MAXIMUM_VALUES} "
        "values beside the 'data' of inputs. Send tensors as binary data."
    )


def _fits(pieces: Iterator[bytes]) -> bool:
    entries = values = 0
    for piece in pieces:
        entries += piece.count(b"[") + piece.count(b"{") + piece.count(b":")
        values += piece.count(b",")
        if entries > MAXIMUM_ENTRIES or values > MAXIMUM_VALUES:
            return False
    return True


def _pieces(text: bytes) -> Iterator[bytes]:
    for at in range(0, len(text), _PIECE_BYTES):
        yield text[at : at + _PIECE_BYTES]


def _without_strings(text: bytes) -> Iterator[bytes]:
    """Yield the text outside of its strings. What comes behind a mistake is not looked at: it is not read either."""
    at, end = 0, len(text)
    while at < end:
        stop = _end_of(_OUTSIDE, text, at)
        if stop > at:
            yield _STRING.sub(b"", text[at:stop])
            at = stop
            continue
        at += 1  # a string that is longer than a piece, or that the last piece cut
        while at < end and text[at] != 0x22:
            stop = _end_of(_INSIDE, text, at)
            if stop == at:
                return
            at = stop
        at += 1


def _end_of(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at, at + _PIECE_BYTES)
    return at if found is None else found.end()
