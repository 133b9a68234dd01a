"""Damaged sessions: whatever a client sends, nothing breaks, and the next client is served."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.frontends.v2_grpc import Options
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.router import Router
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import deflate
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX
from charonia_runtime.frontends.v2_grpc.transports.http2.handler import Handler
from charonia_runtime.wires.http2.header_blocks import encode_block
from tests.support.fake_server import FakeServer, echo_config
from tests.support.grpc_calls import SERVICE, message
from tests.support.http2 import START, Server, data_frame, headers_frame
from tests.support.streams import counting, request

INFER, STREAM = f"{SERVICE}/ModelInfer", f"{SERVICE}/ModelStreamInfer"
WATCH, REFLECT = "/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
ECHO = message(request("echo", "7", 1.0, 2.0))
COUNTING = message(request("counting", "8", *range(5)))
FAULTLESS = b"grpc-status\x010"


def block(path: str, **fields: str) -> bytes:
    usual = {":method": "POST", ":scheme": "http", ":path": path, "content-type": "application/grpc", "te": "trailers"}
    fields = {name.replace("_", "-"): value for name, value in fields.items()}
    return encode_block((name.encode(), value.encode()) for name, value in {**usual, **fields}.items())


def call(number: int, head: bytes, *messages: bytes, flag: int = 0) -> bytes:
    body = b"".join(PREFIX.pack(flag, len(data)) + data for data in messages)
    return headers_frame(number, head, 0x4) + data_frame(number, body, 0x1)


SESSION = b"".join((
    START,
    call(1, block(INFER), ECHO),
    call(3, block(STREAM), ECHO, COUNTING),
    call(5, block(INFER, grpc_encoding="gzip", grpc_accept_encoding="gzip"), deflate([ECHO], "gzip", "low"), flag=1),
    call(7, block(WATCH), b"\x0a\x00"),
    call(9, block(REFLECT), b"\x3a\x01*"),
    call(11, block(f"{SERVICE}/ModelMetadata", grpc_timeout="10S", x_bin="AAA="), b"\x0a\x04echo"),
    call(13, block("/nothing")),
    call(15, block(INFER), ECHO[:-1]),
))  # fmt: skip

Damage = list[tuple[int, int, bytes]]
"""Where, how many bytes go, and what comes instead."""
DAMAGE = st.lists(
    st.tuples(st.integers(len(START), len(SESSION)), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=4
)


@contextlib.contextmanager
def quiet_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


async def session(damage: Damage, cut: int) -> None:
    server = FakeServer()
    server.add(echo_config())
    server.add(echo_config("counting"), counting)
    options = Options(grpc_infer_response_compression_level="low")
    watch = HealthWatch(server)
    handler = Handler(options, Router(server, InferenceCalls(server, options), watch, options))
    data = SESSION
    for at, gone, new in damage:
        data = data[:at] + new + data[at + gone :]
    hostile, honest = Server(handler), Server(handler)
    hostile.send(data, cut=cut)
    written = honest.send(START + call(1, block(INFER), ECHO))
    for _ in range(8):
        await asyncio.sleep(0)
        hostile.written()
        written += honest.written()
    assert FAULTLESS in written
    hostile.connection.lose()
    honest.connection.lose()
    watch.stop()
    for _ in range(2):
        await asyncio.sleep(0)


@given(DAMAGE, st.integers(1, 400))
@settings(max_examples=150, deadline=None)
def test_damaged_sessions(damage: Damage, cut: int) -> None:
    with quiet_loop() as loop:
        loop.set_exception_handler(lambda _, context: pytest.fail(str(context)))
        loop.run_until_complete(session(damage, cut))
        loop.run_until_complete(loop.shutdown_default_executor())
