"""What makes a request well formed (RFC 9113 section 8.2 and 8.3)."""

import re
from collections.abc import Sequence
from typing import Final

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import StreamFault
from charonia_runtime.wires.http2.messages import RequestHead

Field = tuple[bytes, bytes]

_PSEUDO_HEADERS: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
_CONNECTION_FIELDS: Final = frozenset((
    b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade",
))  # fmt: skip
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]|\A[ \t]|[ \t]\Z").search
_MAXIMUM_LENGTH_DIGITS: Final = 18


def request_head(fields: Sequence[Field]) -> RequestHead:
    """The head that the fields of a request say; raises StreamFault if it is malformed."""
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in fields:
        if name[:1] != b":":
            break
        if name not in _PSEUDO_HEADERS or name in pseudo:
            raise _malformed("a pseudo-header that is unknown or repeated")
        if _BAD_VALUE(value):
            raise _malformed("a pseudo-header with a forbidden character")
        pseudo[name] = value
        count += 1
    regular = tuple((bytes(name), bytes(value)) for name, value in fields[count:])
    _check_regular(regular)
    method = pseudo.get(b":method", b"")
    path = pseudo.get(b":path", b"")
    scheme = pseudo.get(b":scheme", b"")
    authority = pseudo.get(b":authority", b"")
    if method == b"CONNECT":
        if path or scheme or not authority:
            raise _malformed("CONNECT has an authority and nothing else")
    elif not (method and scheme and _is_path(path, method)):
        raise _malformed("a request has a method, a scheme and a path")
    return RequestHead(method, path, _one_authority(authority, regular), scheme, regular, _content_length(regular))


def check_trailers(fields: Sequence[Field]) -> None:
    """Raises StreamFault if what follows a request's body is malformed."""
    _check_regular(fields)


def _check_regular(fields: Sequence[Field]) -> None:
    for name, value in fields:
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
