"""Calls as the wire gives them, below any gRPC client: what is refused, and how."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import h2.events
import numpy as np
import pytest

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.frontends.v2_grpc import Options
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.router import Router
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import deflate, inflate
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX
from charonia_runtime.frontends.v2_grpc.transports.http2.handler import Handler
from tests.support.fake_server import FakeServer, answer, echo_config
from tests.support.grpc_calls import SERVICE, message, stream_document
from tests.support.http2 import Client
from tests.support.streams import request

INFER = f"{SERVICE}/ModelInfer"
STREAM = f"{SERVICE}/ModelStreamInfer"


@pytest.fixture
def server() -> FakeServer:
    made = FakeServer()
    made.add(echo_config())
    made.add(echo_config("silent"), lambda asked: None)
    return made


MakeClient = Callable[..., Client]


@pytest.fixture
def connect(server: FakeServer) -> MakeClient:
    """Makes clients of a frontend with the options given."""

    def make(**options: Any) -> Client:
        chosen = Options(**options)
        inference = InferenceCalls(server, chosen)
        return Client(Handler(chosen, Router(server, inference, HealthWatch(server), chosen)))

    return make


def head(path: str = INFER, **fields: str) -> list[tuple[str, str]]:
    """The header fields of a call; underscores in names stand for dashes, an empty value takes a field out."""
    usual = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "host", "te": "trailers"}
    given = {"content-type": "application/grpc", **{name.replace("_", "-"): value for name, value in fields.items()}}
    return [(name, value) for name, value in {**usual, **given}.items() if value]


def framed(data: bytes, flag: int = 0) -> bytes:
    return PREFIX.pack(flag, len(data)) + data


ECHO = message(request("echo", "7", 1.0, 2.0))


def status(client: Client, stream_id: int) -> tuple[str, str]:
    """Code and text that a call ended with."""
    first, _, trailers = client.answer(stream_id)
    fields = trailers or first
    return fields.get("grpc-status", ""), fields.get("grpc-message", "")


async def settle(client: Client) -> None:
    """Let the server's callbacks happen."""
    for _ in range(5):
        await asyncio.sleep(0)
    client.exchange()


async def test_one_call(connect: MakeClient) -> None:
    client = connect()
    stream_id = client.request(framed(ECHO), fields=head())
    await settle(client)
    first, body, trailers = client.answer(stream_id)
    assert first == {":status": "200", "content-type": "application/grpc"}
    assert trailers == {"grpc-status": "0"}
    assert body[:5] == PREFIX.pack(0, len(body) - 5)
    assert b"OUTPUT" in body


@pytest.mark.parametrize("cut", [1, 3, 7, 1000])
async def test_pieces_of_any_size(connect: MakeClient, cut: int) -> None:
    client = connect()
    client.cut = cut
    sent = framed(ECHO)
    pieces = [sent[start : start + cut] for start in range(0, len(sent), cut)]
    stream_id = client.request(*pieces, fields=head())
    await settle(client)
    assert status(client, stream_id) == ("0", "")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (head(content_type="application/json"), "415"),
        (head(content_type="application/grpcx"), "415"),
        (head(content_type=""), "415"),
        ([(":method", "GET"), *head()[1:]], "405"),
    ],
)
async def test_what_is_no_call(connect: MakeClient, fields: list[tuple[str, str]], expected: str) -> None:
    client = connect()
    stream_id = client.request(framed(ECHO), fields=fields)
    first, body, _ = client.answer(stream_id)
    assert first == {":status": expected, "content-type": "text/plain"}
    assert body.startswith(b"gRPC is served here: ")


@pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc;charset=utf-8"])
async def test_kinds_of_grpc(connect: MakeClient, kind: str) -> None:
    client = connect()
    stream_id = client.request(framed(ECHO), fields=head(content_type=kind))
    await settle(client)
    assert status(client, stream_id) == ("0", "")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (head("/other.Service/Call"), ("12", "")),
        (head("/"), ("12", "")),
        (head(grpc_encoding="snappy"), ("12", "messages compressed with 'snappy' are not understood")),
        (head(grpc_timeout="soon"), ("13", "malformed grpc-timeout 'soon'")),
        (head(grpc_timeout="123456789S"), ("13", "malformed grpc-timeout '123456789S'")),
        (head(x_bin="!!"), ("13", "metadata 'x-bin' is not base64")),
    ],
)
async def test_calls_that_are_refused_by_their_head(
    connect: MakeClient, fields: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    client = connect()
    assert status(client, client.request(framed(ECHO), fields=fields)) == expected
    assert not client.saw(h2.events.DataReceived)


async def test_who_compresses_otherwise_hears_what_is_understood(connect: MakeClient) -> None:
    client = connect()
    found = client.answer(client.request(framed(ECHO), fields=head(grpc_encoding="snappy")))[0]
    assert found["grpc-accept-encoding"] == "identity,gzip,deflate"


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (INFER, [], ("12", "expected one message, got none")),
        (INFER, [framed(ECHO), framed(ECHO)], ("12", "expected one message, got 2")),
        (INFER, [framed(ECHO) + framed(ECHO)], ("12", "expected one message, got 2")),
        (INFER, [framed(ECHO)[:-1]], ("13", "the request ended within a message")),
        (INFER, [framed(ECHO) + b"\0"], ("13", "the request ended within a message")),
        (STREAM, [b"\0\0\0"], ("13", "the request ended within a message")),
        (INFER, [framed(ECHO, 3)], ("13", "a message begins with 3 where 0 or 1 was expected")),
        (STREAM, [framed(ECHO, 3)], ("13", "a message begins with 3 where 0 or 1 was expected")),
        (INFER, [framed(ECHO, 1)], ("13", "a message is compressed but grpc-encoding does not say how")),
        (STREAM, [framed(ECHO, 1)], ("13", "a message is compressed but grpc-encoding does not say how")),
        (
            INFER,
            [PREFIX.pack(0, 2**31) + b"x"],
            ("8", "Received message larger than max (2147483648 vs. 2147483647)"),
        ),
    ],
)
async def test_messages_that_break_the_rules(
    connect: MakeClient, server: FakeServer, path: str, body: list[bytes], expected: tuple[str, str]
) -> None:
    client = connect()
    stream_id = client.request(*body, fields=head(path))
    await settle(client)
    assert status(client, stream_id) == expected
    assert not server.requests
    again = client.request(framed(ECHO), fields=head())
    await settle(client)
    assert status(client, again) == ("0", "")


@cache
def bomb_of_zeros(encoding: str) -> bytes:
    return deflate([bytes(65 << 20)], encoding, "low")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("path", [INFER, STREAM])
async def test_damaged_and_dangerous_messages(
    connect: MakeClient, server: FakeServer, encoding: str, path: str
) -> None:
    client = connect()
    fields = head(path, grpc_encoding=encoding)
    broken = client.request(framed(b"\xff" * 40, 1), fields=fields)
    bomb = client.request(framed(bomb_of_zeros(encoding), 1), fields=fields)
    await until(client, lambda: all(status(client, stream)[0] for stream in (broken, bomb)))
    assert status(client, broken) == ("13", f"cannot decompress a message that is said to be {encoding}")
    assert status(client, bomb)[0] == "8"
    assert not server.requests


async def until(client: Client, happened: Callable[[], bool]) -> None:
    """Let threads finish."""
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.005)
            client.exchange()


async def test_answers_of_a_compressed_stream_keep_their_order(connect: MakeClient, server: FakeServer) -> None:
    """Large ones are compressed in threads, small ones at once."""
    noise = np.random.default_rng(1).integers(0, 255, 50_000, np.uint8)
    sizes = {"0": np.zeros(500_000, np.uint8), "1": np.zeros(10, np.uint8), "2": noise, "3": np.zeros(90_000, np.uint8)}
    server.add(ModelConfig("sizes"), lambda asked: [answer(asked, {"OUTPUT": sizes[asked.id]})])
    client = connect(grpc_infer_response_compression_level="high")
    sent = b"".join(framed(message({"model_name": "sizes", "id": identifier})) for identifier in sizes)
    stream_id = client.request(sent, fields=head(STREAM, grpc_accept_encoding="gzip, identity"))
    await until(client, lambda: status(client, stream_id)[0] != "")
    assert status(client, stream_id) == ("0", "")
    first, body, _ = client.answer(stream_id)
    assert first["grpc-encoding"] == "gzip"
    found = []
    while body:
        flag, length = PREFIX.unpack(body[:5])
        data, body = body[5 : 5 + length], body[5 + length :]
        document = stream_document(inflate(data, "gzip") if flag else data)["infer_response"]
        found.append((document["id"], flag))
    assert [identifier for identifier, _ in found] == list(sizes)
    assert [dict(found)[identifier] for identifier in ("0", "2", "3")] == [1, 0, 1]


async def test_many_messages_that_wait_for_a_slow_one(connect: MakeClient, server: FakeServer) -> None:
    server.add(echo_config("any"), lambda asked: [answer(asked, {})])
    slow = deflate([np.random.default_rng(1).bytes(3000)], "gzip", "low")
    quick = deflate([message({"model_name": "any", "id": "q"})], "gzip", "low")
    client = connect()
    sent = framed(slow, 1) + framed(quick, 1) * 3000
    stream_id = client.request(sent, fields=head(STREAM, grpc_encoding="gzip"))
    await until(client, lambda: status(client, stream_id)[0] != "")
    assert status(client, stream_id) == ("0", "")
    assert len(server.requests) == 3000


@pytest.mark.parametrize("path", [INFER, STREAM])
async def test_a_deadline(connect: MakeClient, server: FakeServer, path: str) -> None:
    client = connect()
    sent = framed(message(request("silent")))
    stream_id = client.request(sent, fields=head(path, grpc_timeout="20m"))
    await until(client, lambda: status(client, stream_id)[0] != "")
    assert status(client, stream_id) == ("4", "Deadline Exceeded")
    assert server.cancelled == server.requests
    server.answer(server.requests[0], [answer(server.requests[0], {})])
    await settle(client)
    assert not client.saw(h2.events.DataReceived)


@pytest.mark.parametrize("path", [INFER, STREAM])
async def test_a_reset(connect: MakeClient, server: FakeServer, path: str) -> None:
    client = connect()
    stream_id = client.request(framed(message(request("silent"))), fields=head(path))
    client.h2.reset_stream(stream_id)
    client.exchange()
    assert len(server.requests) == 1
    assert server.cancelled == server.requests


async def test_a_refusal_needs_no_whole_message(connect: MakeClient) -> None:
    """Whoever may not ask need not send gigabytes first."""
    client = connect(grpc_restricted_protocol=("inference:key=secret",))
    stream_id = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream_id, head())
    client.exchange()
    assert status(client, stream_id)[0] == ""
    client.send(stream_id, PREFIX.pack(0, 2**30))
    assert status(client, stream_id)[0] == "14"


@pytest.mark.parametrize("fields", [head("/no.Service/Call"), head(content_type="text/html")])
async def test_a_refusal_needs_no_message_in_the_end(
    connect: MakeClient, fields: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charonia_runtime.frontends.v2_grpc.transports.http2.refusal._PATIENCE_SECONDS", 0.02)
    client = connect()
    stream_id = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream_id, fields)
    client.exchange()
    await until(client, lambda: client.answer(stream_id)[0] != {})


async def test_a_stream_that_is_refused_is_told_at_once(connect: MakeClient) -> None:
    """Also where its client waits for an answer before it sends anything."""
    client = connect(grpc_restricted_protocol=("inference:key=secret",))
    stream_id = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream_id, head(STREAM))
    client.exchange()
    began = asyncio.get_running_loop().time()
    await until(client, lambda: bool(client.answer(stream_id)[0]))
    assert asyncio.get_running_loop().time() - began < 0.7
    assert status(client, stream_id)[0] == "14"


@pytest.mark.parametrize("path", [INFER, STREAM])
@pytest.mark.parametrize("place", ["refusal", "open", "message"])
async def test_an_exception_is_an_internal_error_and_a_log_record(
    connect: MakeClient, caplog: pytest.LogCaptureFixture, path: str, place: str
) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("a defect")

    class Failing:
        message = half_closed = aborted = fail

    client = connect()
    handler = client.server.connection._handler
    changes = {"refusal": {"refusal": fail}, "open": {"open": fail}, "message": {"open": lambda _: Failing()}}[place]
    method = replace(handler._methods.find(path), **changes)  # type: ignore[attr-defined]
    handler._methods._methods[path] = method  # type: ignore[attr-defined]

    for _ in range(2):
        stream_id = client.request(framed(ECHO), fields=head(path))
        await settle(client)
        assert status(client, stream_id) == ("13", "internal error; see the server's log")
    told = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert len(told) >= 2
    assert {repr(error) for error in told} == {"ValueError('a defect')"}
    stream_id = client.request(framed(b""), fields=head(f"{SERVICE}/ServerLive"))
    await until(client, lambda: bool(client.answer(stream_id)[1]))


async def test_metadata_of_every_form(connect: MakeClient, server: FakeServer) -> None:
    client = connect(grpc_header_forward_pattern=".*")
    fields = [*head(grpc_timeout="10S", grpc_accept_encoding="gzip"), ("x-plain", "a, b"), ("x-raw-bin", "AAE=,Ag")]
    client.request(framed(ECHO), fields=fields)
    await settle(client)
    assert server.requests[0].parameters == {"x-plain": "a, b", "x-raw-bin": "\x02"}


async def test_finished_calls_leave_nothing_to_the_garbage_collector(connect: MakeClient, server: FakeServer) -> None:
    """Requests carry tensors: they must go when they are answered, not when a collector comes by."""
    server.record = False
    client = connect()
    client.request(framed(message(request("nothing"))), fields=head())
    gc.collect()
    before = ours_alive()
    gc.disable()
    try:
        for fields in (head(), head(grpc_timeout="10S"), head(STREAM), head(f"{SERVICE}/ServerReady")):
            client.request(framed(ECHO if fields[2][1] != f"{SERVICE}/ServerReady" else b""), fields=fields)
            await settle(client)
        assert len(client.saw(h2.events.DataReceived)) == 4
        left = ours_alive() - before
    finally:
        gc.enable()
    assert not left.keys() & {
        "InferenceRequest", "InferExchange", "InferStream", "StreamAnswer", "UnaryExchange", "StreamExchange", "Stream",
        "_ControlExchange",
    }  # fmt: skip


def ours_alive() -> Counter[str]:
    """How many objects of each of our classes there are; other tests may have left some."""
    ours = (type(thing) for thing in gc.get_objects() if str(type(thing).__module__).startswith("charonia_runtime"))
    return Counter(kind.__name__ for kind in ours)
