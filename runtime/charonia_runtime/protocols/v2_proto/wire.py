"""
Protobuf's wire format where going through message objects would copy tensors.

Reading: raw tensors are cut out of a request's bytes. Writing: the pieces of a response are joined once. A field's key
byte is its number times 8 plus its wire type.
"""

from functools import lru_cache

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_FIELDS_AT_MOST = 4096
"""More fields than this are left to protobuf's own parser: a hostile message of tiny fields must not keep us busy."""


def varint(value: int) -> bytes:
    """An unsigned integer as protobuf writes it."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=4096)
def prefix(key: int, length: int) -> bytes:
    """What stands before the `length` bytes of a length-delimited field whose key is the byte `key`."""
    return bytes((key,)) + varint(length)


def cut(data: bytes | memoryview, key: int) -> tuple[bytes, list[memoryview]] | None:
    """
    Take the length-delimited fields with key byte `key` out of a message: the rest of its bytes, and their contents.

    The contents are views of `data`. None when the message is malformed or unusual; then a real parser must decide.
    """
    view = memoryview(data)
    contents: list[memoryview] = []
    rest: list[memoryview] = []
    at, end, kept = 0, len(data), 0
    for _ in range(_FIELDS_AT_MOST):
        if at >= end:
            rest.append(view[kept:])
            return b"".join(rest), contents
        start = at
        found = skip(data, at, end)
        if found is None:
            return None
        content, at = found
        if data[start] == key:
            contents.append(view[content:at])
            rest.append(view[kept:start])
            kept = at
    return None


def skip(data: bytes | memoryview, at: int, end: int) -> tuple[int, int] | None:
    """Where the content of the field at `at` starts and where it ends; None where that cannot be told."""
    key = data[at]
    if key >= 0x80:
        return None
    at += 1
    wire_type = key & 7
    if wire_type in _FIXED_SIZES:
        stop = at + _FIXED_SIZES[wire_type]
        return (at, stop) if stop <= end else None
    if wire_type not in {_VARINT, _LENGTH}:
        return None
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            stop = at + value if wire_type == _LENGTH else at
            return (at, stop) if stop <= end else None
    return None
