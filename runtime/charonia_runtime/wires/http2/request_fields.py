"""
What makes a request well formed (RFC 9113 section 8.2 and 8.3).

A value may begin or end with a space all the same: gRPC's own servers take such metadata as it is, and clients send it.
"""

import re
from collections.abc import Sequence
from typing import Final

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import StreamFault
from charonia_runtime.wires.http2.hpack_fields import Field
from charonia_runtime.wires.http2.messages import RequestHead

_PSEUDO_HEADERS: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
_CONNECTION_FIELDS: Final = frozenset((
    b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade",
))  # fmt: skip
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_BAD_PSEUDO_VALUE: Final = re.compile(rb"[\x00\r\n]|\A[ \t]|[ \t]\Z").search
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]").search
_MAXIMUM_LENGTH_DIGITS: Final = 18
_KNOWN_FIELDS: Final = 256
"""Fields that are known again."""
_KNOWN_FIELD_BYTES: Final = 256
"""The largest of them."""


class RequestChecks:
    """Checks the requests of one client. A field that was found well formed is known again."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[Field] = set()

    def head(self, fields: Sequence[Field]) -> RequestHead:
        """The head that the fields of a request say; raises StreamFault if it is malformed."""
        pseudo: dict[bytes, bytes] = {}
        count = 0
        for name, value in fields:
            if name[:1] != b":":
                break
            if name not in _PSEUDO_HEADERS or name in pseudo:
                raise _malformed("a pseudo-header that is unknown or repeated")
            pseudo[name] = value
            count += 1
        regular = tuple(fields[count:])
        self.check_trailers(regular)
        method = pseudo.get(b":method", b"")
        path = pseudo.get(b":path", b"")
        scheme = pseudo.get(b":scheme", b"")
        authority = pseudo.get(b":authority", b"")
        if any(map(_BAD_PSEUDO_VALUE, (method, path, scheme, authority))):
            raise _malformed("a pseudo-header with a forbidden character")
        if method == b"CONNECT":
            if path or scheme or not authority:
                raise _malformed("CONNECT has an authority and nothing else")
        elif not (method and scheme and _is_path(path, method)):
            raise _malformed("a request has a method, a scheme and a path")
        return RequestHead(method, path, _one_authority(authority, regular), scheme, regular, _content_length(regular))

    def check_trailers(self, fields: Sequence[Field]) -> None:
        """Raises StreamFault if regular fields are malformed, as those that follow a body."""
        known = self._known
        for field in fields:
            if field not in known:
                _check_regular(*field)
                if len(field[0]) + len(field[1]) > _KNOWN_FIELD_BYTES:
                    continue
                if len(known) >= _KNOWN_FIELDS:
                    known.clear()
                known.add(field)


def _check_regular(name: bytes, value: bytes) -> None:
    if not _NAME(name):
        raise _malformed("a field name with a forbidden character, or a pseudo-header out of place")
    if name in _CONNECTION_FIELDS or (name == b"te" and value != b"trailers"):
        raise _malformed("a field that belongs to HTTP/1 connections")
    if _BAD_VALUE(value):
        raise _malformed("a field value with a forbidden character")


def _is_path(path: bytes, method: bytes) -> bool:
    return path[:1] == b"/" or (path == b"*" and method == b"OPTIONS")


def _one_authority(authority: bytes, fields: Sequence[Field]) -> bytes:
    for name, value in fields:
        if name == b"host":
            if authority and value.lower() != authority.lower():
                raise _malformed("two different authorities")
            authority = value
    return authority


def _content_length(fields: Sequence[Field]) -> int:
    said = {value for name, value in fields if name == b"content-length"}
    if not said:
        return -1
    value = said.pop()
    if said or not value.isdigit() or len(value) > _MAXIMUM_LENGTH_DIGITS:
        raise _malformed("a content-length that is no number, or two of them")
    return int(value)


def _malformed(reason: str) -> StreamFault:
    return StreamFault(errors.PROTOCOL_ERROR, reason)
