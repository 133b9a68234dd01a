"""
Limits on messages, applied before protobuf reads them.

A message of 60 MB, which is 60 KB on the wire when compressed, may hold 30 million empty ones: protobuf needs 140 bytes
for each, and reads all of them in one call that nobody else can interrupt. So fields are counted in the bytes.
"""

from typing import Any, Final

from charonia_runtime.core.errors import InvalidArgumentError

UNLIMITED_BYTES: Final = 64 * 1024
"""Messages up to this size are read at once: they hold less than any limit."""
MAXIMUM_FIELDS: Final = 65_536
"""Fields of one message and of the messages in it."""
MAXIMUM_CONTENTS: Final = 1_000_000
"""Strings, or numbers that are not packed, in all tensors of one message. Raw tensors have no limit but the size."""

_CONTENTS: Final = "inference.InferTensorContents"
_LENGTH: Final = 2
_SIZES: Final = {1: 8, 5: 4}


def check_fields(descriptor: Any, data: bytes | memoryview) -> None:
    """
    Raise InvalidArgumentError when the bytes of a message of this type have too many fields.

    What is malformed is left to the parser, which stops there as well.
    """
    if len(data) <= UNLIMITED_BYTES:
        return
    left = {False: MAXIMUM_FIELDS, True: MAXIMUM_CONTENTS}
    pending = [(descriptor, 0, len(data))]
    while pending:
        kind, at, end = pending.pop()
        is_contents = kind.full_name == _CONTENTS
        inner = {number: field.message_type for number, field in kind.fields_by_number.items() if field.message_type}
        while at < end:
            left[is_contents] -= 1
            if left[is_contents] < 0:
                raise _refusal(is_contents=is_contents)
            key, at = _varint(data, at, end)
            wire_type = key & 7
            if wire_type == _LENGTH:
                length, at = _varint(data, at, end)
                message_type = inner.get(key >> 3)
                if message_type is not None:
                    pending.append((message_type, at, min(at + length, end)))
                at += length
            elif wire_type == 0:
                _, at = _varint(data, at, end)
            elif wire_type in _SIZES:
                at += _SIZES[wire_type]
            else:
                break


def _varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return a number and the place behind it; behind the end for one that is cut short or too long."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, end


def _refusal(*, is_contents: bool) -> InvalidArgumentError:
    if is_contents:
        return InvalidArgumentError(
            f"the request has more than {MAXIMUM_CONTENTS} elements in 'contents', send them in 'raw_input_contents'"
        )
    return InvalidArgumentError(f"the request has more than {MAXIMUM_FIELDS} fields")
