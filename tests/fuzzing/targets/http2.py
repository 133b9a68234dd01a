"""HTTP/2: whatever a client sends, the connection goes on or hangs up, every stream ends, and nothing piles up."""

from hpack import Encoder

from charonia_runtime.wires.http2 import frames
from charonia_runtime.wires.http2.connection import Connection
from charonia_runtime.wires.http2.header_blocks import encode_block
from charonia_runtime.wires.http2.limits import BUFFERED_BYTES, Limits
from charonia_runtime.wires.http2.stream import Receiver, Stream
from tests.fuzzing.pieces import pieces_of

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIMITS = Limits(concurrent_streams=8, frame_bytes=16384, resets=20, chores=200)
_HEAD = encode_block([(b":status", b"200")])
_TRAILERS = encode_block([(b"grpc-status", b"0")])
_REQUEST = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/s/m"),
    (b":authority", b"a"),
    (b"te", b"trailers"),
]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


_BLOCK = Encoder().encode(_REQUEST)
_SETTINGS = _frame(frames.SETTINGS, 0, 0, b"")
SEEDS = tuple(
    PREFACE + _SETTINGS + rest
    for rest in (
        _frame(frames.HEADERS, 4, 1, _BLOCK) + _frame(frames.DATA, 1, 1, b"\0\0\0\0\x02ab"),
        _frame(frames.HEADERS, 5, 1, _BLOCK) + _frame(frames.HEADERS, 5, 3, _BLOCK) + _frame(frames.RST_STREAM, 0, 3, b"\0\0\0\x08"),
        _frame(frames.HEADERS, 1, 1, _BLOCK[:3]) + _frame(frames.CONTINUATION, 4, 1, _BLOCK[3:]),
        _frame(frames.SETTINGS, 0, 0, b"\0\x04\0\0\0\x01") + _frame(frames.HEADERS, 5, 1, _BLOCK)
        + _frame(frames.WINDOW_UPDATE, 0, 1, b"\0\0\0\x05"),
        _frame(frames.PING, 0, 0, b"12345678") + _frame(frames.GOAWAY, 0, 0, b"\0" * 8),
        _frame(frames.HEADERS, 0x2C, 1, b"\x01\0\0\0\0\0" + _BLOCK + b"p") + _frame(frames.DATA, 9, 1, b"\x02abpp"),
        _frame(frames.HEADERS, 4, 1, _BLOCK) + _frame(frames.DATA, 0, 1, b"") * 3 + _frame(frames.HEADERS, 5, 1, b"\0\x01a\x01b"),
    )
)  # fmt: skip


class _Echo:
    """Answers each request with its body."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.body = bytearray()
        self.ends = 0

    def data(self, piece: memoryview) -> None:
        assert not self.ends
        self.body += piece

    def ended(self) -> None:
        assert not self.ends
        self.ends += 1
        self._stream.respond(_HEAD, [bytes(self.body)], _TRAILERS)

    def paused(self) -> None: ...

    def aborted(self, code: int) -> None:
        assert 0 <= code < 1 << 32
        self.ends += 1


class _Handler:
    def __init__(self) -> None:
        self.echoes: list[_Echo] = []

    def begin(self, stream: Stream) -> Receiver | None:
        assert stream.head.path.startswith((b"/", b"*"))
        echo = _Echo(stream)
        self.echoes.append(echo)
        return echo


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    handler = _Handler()
    connection = Connection(handler, LIMITS, 0.0, lambda: None)
    now, rest = 0.0, b""
    for piece in pieces_of(data):
        now += 0.001
        whole = rest + piece
        taken = connection.receive(memoryview(bytearray(whole)), now)
        assert 0 <= taken <= len(whole)
        rest = whole[taken:]
        assert len(rest) <= LIMITS.frame_bytes + frames.HEADER_BYTES
        assert len(connection.streams) <= LIMITS.concurrent_streams
        connection.outbox.take()
        assert connection.outbox.size <= 2 * BUFFERED_BYTES
        if connection.is_closed:
            break
    connection.tick(now + 1)
    connection.lose()
    assert not connection.streams
    assert all(echo.ends <= 1 for echo in handler.echoes)
