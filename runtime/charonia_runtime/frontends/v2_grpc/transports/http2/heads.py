"""What the header block of a call says. Equal blocks of a connection are looked at once."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from charonia_runtime.frontends.v2_grpc.calls import Method, Methods
from charonia_runtime.frontends.v2_grpc.metadata import Metadata
from charonia_runtime.frontends.v2_grpc.status import OK, Status, StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.blocks import (
    no_call_block,
    refusal_block,
    unknown_encoding_block,
)
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import ENCODINGS, IDENTITY, chosen_encoding
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError
from charonia_runtime.wires.http2.messages import RequestHead

_CONTENT_TYPE: Final = re.compile(rb"application/grpc(?:[+;].*)?", re.DOTALL)
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_BINARY: Final = b"-bin"
_OWN: Final = frozenset({
    b"content-type", b"content-length", b"te", b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding",
})  # fmt: skip
"""Headers that belong to gRPC or to HTTP: they are no metadata."""


@dataclass(slots=True)
class CallHead:
    """
    The derived parts of a head. Either `answer`, a whole answer for what is no call that could be served, or a call.

    `timeout_seconds` is None where the client waits for ever; `encoding` is that of its compressed messages, "" where
    it may send none; `reply_encoding` that of answers, "" where they are not compressed.
    """

    metadata: Metadata
    answer: bytes = b""
    text: bytes = b""
    """What goes with the answer to what is no call of gRPC at all."""
    status: Status = OK
    """What the log calls the answer."""
    method: Method | None = None
    timeout_seconds: float | None = None
    encoding: str = ""
    reply_encoding: str = ""


def read_head(head: RequestHead, methods: Methods, *, compresses: bool) -> CallHead:
    """What `head` asks for; with `compresses`, answers are compressed for clients that accept it."""
    fields = dict(reversed(head.fields))  # the first of each name
    if head.method != b"POST":
        return _no_call(405, "gRPC is served here: calls are POST requests")
    if _CONTENT_TYPE.fullmatch(fields.get(b"content-type", b"")) is None:
        return _no_call(415, "gRPC is served here: content-type must be application/grpc")
    method = methods.find(head.path.decode("latin-1"))
    if method is None:
        status = Status(StatusCode.UNIMPLEMENTED)
        return CallHead(Metadata(()), refusal_block(status), status=status)
    encoding = fields.get(b"grpc-encoding", b"").decode("latin-1")
    if encoding not in {"", IDENTITY, *ENCODINGS}:
        status = Status(StatusCode.UNIMPLEMENTED, f"messages compressed with '{encoding[:64]}' are not understood")
        return CallHead(Metadata(()), unknown_encoding_block(status), status=status)
    try:
        return CallHead(
            Metadata(_pairs(head)),
            method=method,
            timeout_seconds=_timeout(fields.get(b"grpc-timeout")),
            encoding="" if encoding == IDENTITY else encoding,
            reply_encoding=chosen_encoding(fields.get(b"grpc-accept-encoding", b"").decode("latin-1"))
            if compresses
            else "",
        )
    except CallError as error:
        return CallHead(Metadata(()), refusal_block(error.status), status=error.status)


def _no_call(http_status: int, text: str) -> CallHead:
    """The answer to what is no call of gRPC at all."""
    status = Status(StatusCode.UNIMPLEMENTED, text)
    return CallHead(Metadata(()), no_call_block(http_status), f"{text}\n".encode(), status)


def _timeout(text: bytes | None) -> float | None:
    """Seconds. Raises CallError for what is no `grpc-timeout`."""
    if text is None:
        return None
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise CallError(StatusCode.INTERNAL, f"malformed grpc-timeout '{text[:64].decode('latin-1')}'")
    return int(found[1]) * _SECONDS[found[2]]


def _pairs(head: RequestHead) -> Iterator[tuple[str, str | bytes]]:
    """Metadata. Several values of a binary key may share a field. Raises CallError for one that is no base64."""
    for name, value in head.fields:
        if name in _OWN:
            continue
        key = name.decode("latin-1")
        if not name.endswith(_BINARY):
            yield key, value.decode(errors="replace")
            continue
        for text in value.split(b","):
            unpadded = text.strip().rstrip(b"=")
            try:
                yield key, b64decode(unpadded + b"=" * (-len(unpadded) % 4), validate=True)
            except Base64Error as error:
                raise CallError(StatusCode.INTERNAL, f"metadata '{key}' is not base64") from error
