"""The header blocks of answers. They are stateless: made once, used on every connection."""

from functools import lru_cache
from typing import Final
from urllib.parse import quote

from charonia_runtime.frontends.v2_grpc.status import OK, Status
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import ENCODINGS, IDENTITY
from charonia_runtime.wires.http2.header_blocks import encode_block

_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
"""What stands in a `grpc-message` as it is; the rest of its UTF-8 is percent-encoded."""
_HEAD: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_ACCEPTED: Final = (b"grpc-accept-encoding", ",".join((IDENTITY, *ENCODINGS)).encode())


@lru_cache
def head_block(encoding: str = "") -> bytes:
    """What stands before the messages of an answer, compressed with `encoding` if they are."""
    return encode_block((*_HEAD, (b"grpc-encoding", encoding.encode())) if encoding else _HEAD)


@lru_cache(maxsize=256)
def trailers_block(status: Status) -> bytes:
    """What stands behind the messages."""
    return encode_block(_trailers(status))


@lru_cache(maxsize=256)
def refusal_block(status: Status) -> bytes:
    """The whole answer of a call that gets no message."""
    return encode_block((*_HEAD, *_trailers(status)))


@lru_cache
def unknown_encoding_block(status: Status) -> bytes:
    """The same for a client whose compression is not known here: it hears which ones are."""
    return encode_block((*_HEAD, *_trailers(status), _ACCEPTED))


@lru_cache
def no_call_block(http_status: int) -> bytes:
    """The head of the answer to a request that is no call of gRPC at all."""
    return encode_block(((b":status", str(http_status).encode()), (b"content-type", b"text/plain")))


def _trailers(status: Status) -> list[tuple[bytes, bytes]]:
    fields = [(b"grpc-status", str(int(status.code)).encode())]
    if status.text:
        fields.append((b"grpc-message", quote(status.text, safe=_PLAIN).encode()))
    return fields


HEAD: Final = head_block()
TRAILERS: Final = trailers_block(OK)
"""The two of nearly every answer."""
