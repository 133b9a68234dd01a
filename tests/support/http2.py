"""HTTP/2 without sockets: a connection of ours against the `h2` package as its client, and frames by hand."""

from collections.abc import Iterator
from typing import Any

import h2.config
import h2.connection
import h2.events

from charonia_runtime.wires.http2.connection import Connection
from charonia_runtime.wires.http2.frames import PREFACE, frame_header, settings
from charonia_runtime.wires.http2.header_blocks import encode_block
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.stream import Receiver, Stream

HEAD = encode_block([(b":status", b"200"), (b"content-type", b"application/grpc")])
TRAILERS = encode_block([(b"grpc-status", b"0")])
REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/a/B"), (":authority", "host"), ("te", "trailers")]
REQUEST_BLOCK = encode_block([(name.encode(), value.encode()) for name, value in REQUEST])
START = PREFACE + settings(()) + frame_header(0, 4, 1, 0)
"""What a client that asks for nothing says first, and that it has read our SETTINGS."""


class Call:
    """A receiver that keeps what it is told, and answers with the request's body if it `echoes`."""

    def __init__(self, stream: Stream, *, echoes: bool) -> None:
        self.stream = stream
        self.pieces: list[bytes] = []
        self.codes: list[int] = []
        self.is_complete = False
        self.pauses = 0
        self._echoes = echoes

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def data(self, piece: memoryview) -> None:
        assert not self.is_complete
        assert not self.codes
        self.pieces.append(bytes(piece))

    def ended(self) -> None:
        assert not self.is_complete
        assert not self.codes
        self.is_complete = True
        if self._echoes:
            self.stream.respond(HEAD, self.pieces, TRAILERS)

    def paused(self) -> None:
        self.pauses += 1

    def aborted(self, code: int) -> None:
        assert not self.codes
        self.codes.append(code)


class Calls:
    """A handler that keeps every call."""

    def __init__(self, *, echoes: bool = True) -> None:
        self.calls: list[Call] = []
        self._echoes = echoes

    def begin(self, stream: Stream) -> Receiver | None:
        self.calls.append(Call(stream, echoes=self._echoes))
        return self.calls[-1]


class Server:
    """Our connection, fed by hand: `send` takes a client's bytes in cuts of any size and returns what is written."""

    def __init__(self, handler: Any, limits: Limits | None = None, *, now: float = 1000.0) -> None:
        self.now = now
        self.connection = Connection(handler, limits or Limits(), now, lambda: None)
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """What was left over of the last cut."""
        return self._rest

    def send(self, data: bytes, *, cut: int | None = None) -> bytes:
        written = []
        for start in range(0, len(data), cut or max(1, len(data))):
            piece = self._rest + data[start : start + (cut or len(data))]
            taken = self.connection.receive(memoryview(bytearray(piece)), self.now)
            assert 0 <= taken <= len(piece)
            self._rest = piece[taken:]
            written.append(self.written())
        return b"".join(written)

    def written(self) -> bytes:
        written = []
        while frames := self.connection.outbox.take():
            written.append(b"".join(frames))
            self.connection.outbox.resume_drained()
        self.connection.outbox.resume_drained()
        return b"".join(written)

    def tick(self, seconds: float) -> bytes:
        self.now += seconds
        self.connection.tick(self.now)
        return self.written()


class Client:
    """The `h2` package on one end, our connection on the other."""

    def __init__(self, handler: Any, limits: Limits | None = None, **config: Any) -> None:
        self.server = Server(handler, limits)
        config = {"client_side": True, "header_encoding": "utf-8", **config}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(**config))
        self.events: list[h2.events.Event] = []
        self.acknowledges = True
        self.cut: int | None = None
        self.h2.initiate_connection()
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes both ways until there are none."""
        written = self.server.written()
        while True:
            sent = self.h2.data_to_send()
            written += self.server.send(sent, cut=self.cut)
            if not written:
                return
            for event in self.h2.receive_data(written):
                self.events.append(event)
                if isinstance(event, h2.events.DataReceived) and self.acknowledges and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            written = b""

    def request(self, *pieces: bytes, fields: Any = REQUEST, padding: int | None = None) -> int:
        """Send a whole request; the number of its stream."""
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, fields, end_stream=not pieces)
        for number, piece in enumerate(pieces, 1):
            self.send(stream_id, piece, ends=number == len(pieces), padding=padding)
        self.exchange()
        return stream_id

    def send(self, stream_id: int, data: bytes, *, ends: bool = False, padding: int | None = None) -> None:
        """Send a part of a body, as the windows allow."""
        while True:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
            room = max(0, room - (0 if padding is None else padding + 1))
            piece, data = data[:room], data[room:]
            self.h2.send_data(stream_id, piece, end_stream=ends and not data, pad_length=padding)
            self.exchange()
            if not data:
                return

    def answer(self, stream_id: int) -> tuple[dict[str, str], bytes, dict[str, str]]:
        """What came on a stream: headers, body, trailers."""
        head: dict[str, str] = {}
        trailers: dict[str, str] = {}
        body = b""
        for event in self.events:
            if getattr(event, "stream_id", None) != stream_id:
                continue
            if isinstance(event, h2.events.ResponseReceived):
                head = dict(event.headers or [])  # type: ignore[arg-type]
            elif isinstance(event, h2.events.DataReceived):
                body += event.data or b""
            elif isinstance(event, h2.events.TrailersReceived):
                trailers = dict(event.headers or [])  # type: ignore[arg-type]
        return head, body, trailers

    def saw(self, kind: type[h2.events.Event]) -> list[Any]:
        """Events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def headers_frame(stream_id: int, block: bytes = REQUEST_BLOCK, flags: int = 0x5) -> bytes:
    return frame_header(len(block), 1, flags, stream_id) + block


def data_frame(stream_id: int, body: bytes = b"", flags: int = 0) -> bytes:
    return frame_header(len(body), 0, flags, stream_id) + body


def frames_of(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 3], "big")
        yield data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9], "big"), data[at + 9 : at + 9 + length]
        at += 9 + length


def goaway_of(data: bytes) -> tuple[int, str] | None:
    """Code and reason of the GOAWAY in what the server wrote, if there is one."""
    for kind, _, _, payload in frames_of(data):
        if kind == 7:
            return int.from_bytes(payload[4:8], "big"), payload[8:].decode()
    return None


def resets_of(data: bytes) -> list[tuple[int, int]]:
    """Stream and code of each RST_STREAM in what the server wrote."""
    return [(stream, int.from_bytes(payload, "big")) for kind, _, stream, payload in frames_of(data) if kind == 3]
