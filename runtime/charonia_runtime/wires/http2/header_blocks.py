"""HPACK: header blocks of requests to validated heads, header fields of answers to blocks."""

from collections.abc import Iterable
from typing import Final

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import StreamFault
from charonia_runtime.wires.http2.hpack_fields import STATIC_FIELDS, Field, FieldDecoder
from charonia_runtime.wires.http2.messages import RequestHead
from charonia_runtime.wires.http2.request_fields import RequestChecks

HARD_LIMIT_FACTOR: Final = 4
"""A block this many times over the limit ends the connection, a smaller one only its stream."""
_CACHED_BYTES: Final = 64 * 1024
"""Blocks and their fields that a connection keeps, together."""
_STATIC_INDEX: Final = {STATIC_FIELDS[index]: index for index in range(len(STATIC_FIELDS) - 1, 0, -1)}
_STATIC_NAME_INDEX: Final = {STATIC_FIELDS[index][0]: index for index in range(len(STATIC_FIELDS) - 1, 0, -1)}


class BlockDecoder:
    """
    The request half of a connection's HPACK.

    A block that leaves the dynamic table alone means the same as long as nothing changes the table: it is decoded and
    checked once. Clients that repeat their headers send such blocks from their second request on.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._decoder = FieldDecoder(limit_bytes * HARD_LIMIT_FACTOR)
        self._checks = RequestChecks()
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
            head = self._checks.head(fields)
            if not self._decoder.changed:
                self._keep(block, head, len(block) + size)
        if ends and head.content_length > 0:
            raise StreamFault(errors.PROTOCOL_ERROR, "a body that did not come")
        return head

    def check_trailers(self, block: bytes) -> None:
        """Read the trailers of a request and forget them; raises as `head` does."""
        self._checks.check_trailers(self._decode(block)[0])

    def skip(self, block: bytes) -> None:
        """Read a block that nobody wants, since it may change the table; raises ConnectionFault."""
        if block not in self._heads:
            self._read(block)

    def _decode(self, block: bytes) -> tuple[list[Field], int]:
        fields, size = self._read(block)
        if size > self._limit_bytes:
            raise StreamFault(errors.ENHANCE_YOUR_CALM, f"a header list of {size} bytes")
        return fields, size

    def _read(self, block: bytes) -> tuple[list[Field], int]:
        read = self._decoder.decode(block)
        if self._decoder.changed:
            self._heads.clear()
            self._cached_bytes = 0
        return read

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
