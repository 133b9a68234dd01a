"""The texts that messages begin with, such as the name of a model, without reading what follows them."""

from typing import Final

_TEXT: Final = 2
"""The wire type of texts."""
_LAST_FIELD: Final = 3


def read_first_texts(start: bytes) -> dict[int, str]:
    """
    Return the texts among the fields 1 to 3 of a message, by the number of the field.

    `start` is the message or its beginning. Reading ends at the first field of another kind, or that is not whole:
    encoders write fields in the order of their numbers, so that names come before tensors.
    """
    found: dict[int, str] = {}
    at = 0
    while at < len(start):
        number, kind = start[at] >> 3, start[at] & 7
        if number > _LAST_FIELD or kind != _TEXT:
            break
        at, length = _read_varint(start, at + 1)
        if at + length > len(start):
            break
        found[number] = start[at : at + length].decode(errors="replace")
        at += length
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the place behind a number, and the number; a number that is cut short is larger than any message."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, value
        shift += 7
    return at, len(data) + 1
