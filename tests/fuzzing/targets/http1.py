"""HTTP/1: whatever a client sends, in whatever pieces, the reader ends a request or says that it cannot be read."""

from charonia_runtime.wires.http1.heads import KnownHeads
from charonia_runtime.wires.http1.messages import RefusedRequestError, Request
from charonia_runtime.wires.http1.reader import RequestReader
from tests.fuzzing.pieces import pieces_of

BODY_BYTES = 100_000
_HEADS = KnownHeads()
"""Of all inputs, as a server keeps them for all connections."""

SEEDS = (
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
    b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
    b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99999\r\n\r\nabc",
    b"POST /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nabcdPUT http://b/ HTTP/1.0\r\n\r\n",
    b"GET /v2/health/live?x=1 HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"POST /a HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
)


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    delivered: list[Request] = []
    reader = RequestReader(BODY_BYTES, delivered.append, lambda: None, _HEADS)
    try:
        for piece in pieces_of(data):
            _receive(reader, piece)
    except RefusedRequestError:
        pass
    for request in delivered:
        assert request.path.startswith("/"), request.path
        assert request.head.version in {"1.0", "1.1"}
    # Chunks and pieces are copied once; nothing that a client announces is taken for received.
    assert sum(request.body.nbytes for request in delivered) <= len(data)


def _receive(reader: RequestReader, piece: bytes) -> None:
    """As a connection does it: into the reader's own buffer where it has one."""
    rest = memoryview(piece)
    while rest:
        vacancy = reader.vacancy()
        if vacancy is None:
            reader.feed(memoryview(bytearray(rest)))
            return
        assert 0 < len(vacancy) <= BODY_BYTES
        count = min(len(vacancy), len(rest))
        vacancy[:count] = rest[:count]
        reader.received(count)
        rest = rest[count:]
