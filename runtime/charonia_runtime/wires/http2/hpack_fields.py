"""HPACK's fields out of bytes (RFC 7541): the part of it that every new header block costs."""

from collections import deque
from typing import Final

from hpack import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault

Field = tuple[bytes, bytes]

FIELD_OVERHEAD_BYTES: Final = 32
"""What RFC 7541 section 4.1 adds to name and value for the size of a field."""
TABLE_BYTES: Final = 4096
"""The size of a dynamic table where no SETTINGS say otherwise; ours never do."""
STATIC_FIELDS: Final[tuple[Field, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)
"""By their index, which begins with 1."""
_STATIC_COUNT: Final = len(STATIC_FIELDS)
_MAXIMUM_RESIZES: Final = 2
"""Table size updates before a block's fields; more make no sense (section 4.2)."""
_LARGEST_SHIFT: Final = 21
"""Integers have up to five octets: more than any length or index that is allowed."""


class FieldDecoder:
    """
    One client's dynamic table, and the blocks that are written with it.

    `changed` says whether the block before changed the table.
    """

    __slots__ = ("_limit_bytes", "_maximum", "_size", "_table", "changed")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._table: deque[Field] = deque()
        self._size = 0
        self._maximum = TABLE_BYTES
        self.changed = False

    def decode(self, block: bytes) -> tuple[list[Field], int]:
        """The fields of a block, and their size as HPACK counts; ConnectionFault leaves a table that is of no use."""
        self.changed = False
        fields: list[Field] = []
        total = at = 0
        end = len(block)
        try:
            while at < end:
                octet = block[at]
                if octet >= 0x80:
                    at += 1
                    index = octet & 0x7F
                    if index == 0x7F:
                        index, at = _long_integer(block, at, index)
                    field = self._entry(index)
                elif octet & 0xE0 == 0x20:
                    at = self._resize(block, at, fields)
                    continue
                else:
                    field, at = self._literal(block, at, octet)
                    if octet >= 0x40:
                        self._add(field)
                fields.append(field)
                total += len(field[0]) + len(field[1]) + FIELD_OVERHEAD_BYTES
                if total > self._limit_bytes:
                    raise _undecodable("a header list far over the limit", errors.ENHANCE_YOUR_CALM)
        except (IndexError, HPACKError) as error:
            raise _undecodable("a header block that cannot be decoded") from error
        return fields, total

    def _entry(self, index: int) -> Field:
        if index < _STATIC_COUNT:
            if not index:
                raise _undecodable("a field with the index 0")
            return STATIC_FIELDS[index]
        return self._table[index - _STATIC_COUNT]

    def _literal(self, block: bytes, at: int, octet: int) -> tuple[Field, int]:
        largest = 0x3F if octet >= 0x40 else 0x0F
        index = octet & largest
        at += 1
        if index:
            if index == largest:
                index, at = _long_integer(block, at, index)
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        return (name, value), at

    def _add(self, field: Field) -> None:
        self.changed = True
        self._table.appendleft(field)
        self._size += len(field[0]) + len(field[1]) + FIELD_OVERHEAD_BYTES
        self._evict()

    def _resize(self, block: bytes, at: int, fields: list[Field]) -> int:
        """Obey the table size updates that a block begins with."""
        if fields:
            raise _undecodable("a table size update after a field")
        for _ in range(_MAXIMUM_RESIZES):
            if at == len(block) or block[at] & 0xE0 != 0x20:
                return at
            self._maximum = block[at] & 0x1F
            at += 1
            if self._maximum == 0x1F:
                self._maximum, at = _long_integer(block, at, self._maximum)
            if self._maximum > TABLE_BYTES:
                raise _undecodable("a table larger than allowed")
            self.changed = True
            self._evict()
        if at < len(block) and block[at] & 0xE0 == 0x20:
            raise _undecodable("too many table size updates")
        return at

    def _evict(self) -> None:
        table = self._table
        while self._size > self._maximum:
            name, value = table.pop()
            self._size -= len(name) + len(value) + FIELD_OVERHEAD_BYTES


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    octet = block[at]
    at += 1
    length = octet & 0x7F
    if length == 0x7F:
        length, at = _long_integer(block, at, length)
    end = at + length
    if end > len(block):
        raise _undecodable("a string longer than its block")
    if octet >= 0x80:
        return decode_huffman(block[at:end]), end
    return block[at:end], end


def _long_integer(block: bytes, at: int, prefix: int) -> tuple[int, int]:
    """The integer that goes on behind a full prefix, and where it ends."""
    number, shift = prefix, 0
    while True:
        octet = block[at]
        at += 1
        number += (octet & 0x7F) << shift
        if octet < 0x80:
            return number, at
        shift += 7
        if shift > _LARGEST_SHIFT:
            raise _undecodable("an integer that is too long")


def _undecodable(reason: str, code: int = errors.COMPRESSION_ERROR) -> ConnectionFault:
    return ConnectionFault(code, reason)
