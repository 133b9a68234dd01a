"""HPACK: header blocks of requests to validated heads, header fields of answers to blocks."""

from collections.abc import Iterable
from typing import Final

from hpack import Decoder, HPACKError
from hpack.table import HeaderTable
from typing_extensions import override

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault, StreamFault
from charonia_runtime.wires.http2.messages import RequestHead
from charonia_runtime.wires.http2.request_fields import check_trailers, request_head

Fields = list[tuple[bytes, bytes]]

_FIELD_OVERHEAD_BYTES: Final = 32
"""What RFC 7541 section 4.1 adds to name and value for the size of a field."""
HARD_LIMIT_FACTOR: Final = 4
"""A block this many times over the limit ends the connection, a smaller one only its stream."""
_MAXIMUM_RESIZES: Final = 2
"""Table size updates before a block's fields: more make no sense (RFC 7541 section 4.2), and each costs as a field."""
_CACHED_BYTES: Final = 64 * 1024
"""Blocks and their fields that a connection keeps, together."""
_STATIC_INDEX: Final = {entry: index for index, entry in reversed(list(enumerate(HeaderTable.STATIC_TABLE, 1)))}
_STATIC_NAME_INDEX: Final = {name: index for index, (name, _) in reversed(list(enumerate(HeaderTable.STATIC_TABLE, 1)))}


class BlockDecoder:
    """
    The request half of a connection's HPACK.

    A block that leaves the dynamic table alone means the same as long as nothing changes the table: it is decoded and
    checked once. Clients that repeat their headers send such blocks from their second request on.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._decoder = Decoder(max_header_list_size=limit_bytes * HARD_LIMIT_FACTOR)
        self._table = self._decoder.header_table = _WatchedTable()
        self._heads: dict[bytes, RequestHead] = {}
        self._cached_bytes = 0

    def head(self, block: bytes, *, ends: bool) -> RequestHead:
        """
        The head that a request's block says; `ends` if no body follows.

        Raises ConnectionFault where the block cannot be read, StreamFault where it can and the request is malformed.
        """
        head = self._heads.get(block)
        if head is None:
            fields, size = self._decode(block)
            head = request_head(fields)
            if not self._table.changed:
                self._keep(block, head, len(block) + size)
        if ends and head.content_length > 0:
            raise StreamFault(errors.PROTOCOL_ERROR, "a body that did not come")
        return head

    def check_trailers(self, block: bytes) -> None:
        """Read the trailers of a request and forget them; raises as `head` does."""
        check_trailers(self._decode(block)[0])

    def skip(self, block: bytes) -> None:
        """Read a block that nobody wants, since it may change the table; raises ConnectionFault."""
        if block not in self._heads:
            self._read(block)

    def _decode(self, block: bytes) -> tuple[Fields, int]:
        fields = self._read(block)
        size = sum(len(name) + len(value) + _FIELD_OVERHEAD_BYTES for name, value in fields)
        if size > self._limit_bytes:
            raise StreamFault(errors.ENHANCE_YOUR_CALM, f"a header list of {size} bytes")
        return fields, size

    def _read(self, block: bytes) -> Fields:
        resizes = _leading_resizes(block)
        if resizes > _MAXIMUM_RESIZES:
            raise ConnectionFault(errors.COMPRESSION_ERROR, "too many table size updates")
        self._table.changed = resizes > 0
        try:
            fields: Fields = self._decoder.decode(block, raw=True)  # type: ignore[assignment]
        except (HPACKError, IndexError, ValueError) as error:
            raise ConnectionFault(errors.COMPRESSION_ERROR, "a header block that cannot be decoded") from error
        if self._table.changed:
            self._heads.clear()
            self._cached_bytes = 0
        return fields

    def _keep(self, block: bytes, head: RequestHead, size: int) -> None:
        self._cached_bytes += size
        if self._cached_bytes > _CACHED_BYTES:
            self._heads.clear()
            self._cached_bytes = size
        self._heads[block] = head


def encode_block(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """
    A header block that leaves the client's dynamic table alone: right on every connection, at any time.

    Names are lower case, pseudo-headers first.
    """
    return b"".join(_encode_field(name, value) for name, value in fields)


def _encode_field(name: bytes, value: bytes) -> bytes:
    index = _STATIC_INDEX.get((name, value))
    if index is not None:
        return _integer(index, 7, 0x80)
    index = _STATIC_NAME_INDEX.get(name)
    start = b"\0" + _integer(len(name), 7) + name if index is None else _integer(index, 4)
    return start + _integer(len(value), 7) + value


def _integer(number: int, prefix_bits: int, pattern: int = 0) -> bytes:
    largest = (1 << prefix_bits) - 1
    if number < largest:
        return bytes((pattern | number,))
    octets = [pattern | largest]
    number -= largest
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def _leading_resizes(block: bytes) -> int:
    """How many table size updates a block begins with, as far as it matters."""
    at = count = 0
    while at < len(block) and block[at] & 0xE0 == 0x20 and count <= _MAXIMUM_RESIZES:
        count += 1
        is_long = block[at] & 0x1F == 0x1F
        at += 1
        while is_long and at < len(block):
            is_long = block[at] >= 0x80
            at += 1
    return count


class _WatchedTable(HeaderTable):
    """A dynamic table that says whether something was added."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = False

    @override
    def add(self, name: bytes, value: bytes) -> None:
        self.changed = True
        super().add(name, value)
