"""gRPC on HTTP/2, with header blocks as they are: whatever a client sends, calls end and nothing is raised."""

import asyncio
import atexit

from charonia_runtime.frontends.v2_grpc import Options
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.router import Router
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX
from charonia_runtime.frontends.v2_grpc.transports.http2.handler import Handler
from charonia_runtime.wires.http2.header_blocks import encode_block
from tests.fuzzing.pieces import pieces_of
from tests.support.fake_server import FakeServer, echo_config
from tests.support.grpc_calls import SERVICE, message
from tests.support.http2 import START, Server, data_frame, headers_frame
from tests.support.streams import request


def _call(number: int, path: str, data: bytes, *fields: tuple[bytes, bytes]) -> bytes:
    usual = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b"te", b"trailers")]
    head = encode_block([*usual, (b"content-type", b"application/grpc"), *fields])
    return headers_frame(number, head, 0x4) + data_frame(number, PREFIX.pack(0, len(data)) + data, 0x1)


_ECHO = message(request("echo", "7", 1.0))
SEEDS = (
    START + _call(1, f"{SERVICE}/ModelInfer", _ECHO),
    START + _call(1, f"{SERVICE}/ModelStreamInfer", _ECHO) + _call(3, "/no/Method", b""),
    START + _call(1, f"{SERVICE}/ServerReady", b"", (b"x-bin", b"AAA="), (b"grpc-encoding", b"gzip")),
    START + _call(1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b"\x3a\x01*"),
)


def _handler() -> tuple[Handler, InferenceCalls]:
    server = FakeServer()
    server.record = False
    server.add(echo_config())
    options = Options()
    inference = InferenceCalls(server, options)
    return Handler(options, Router(server, inference, HealthWatch(server), options)), inference


_HANDLER, _INFERENCE = _handler()
_LOOP = asyncio.new_event_loop()
"""All three serve every input: to make them takes longer than to serve a session."""
atexit.register(_LOOP.close)


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    _LOOP.set_exception_handler(_fail)
    _LOOP.run_until_complete(_serve(data))


async def _serve(data: bytes) -> None:
    client = Server(_HANDLER)
    for piece in pieces_of(data):
        client.send(piece)
    for _ in range(4):
        await asyncio.sleep(0)
        client.written()
    client.connection.lose()
    await asyncio.sleep(0)
    assert _INFERENCE.in_flight.count == 0


def _fail(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    raise AssertionError(context)
