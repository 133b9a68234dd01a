"""Large answers are written as JSON in a thread: their texts, their order, and what becomes of them without a client."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.protocols import json_output
from tests.support.fake_server import FakeServer, answer, echo_config, end
from tests.support.http_client import Client, RawClient, http_frontend

LONG = np.arange(100_000, dtype=np.int32)
SHORT = np.arange(3, dtype=np.int32)
INFER_ONE = b'{"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1],"data":[1]}]}'


class Rendering:
    """Renders integers as always, once `goes_on` is set, and remembers the threads that it ran in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.began = threading.Event()
        self.threads: list[int] = []
        self._render = json_output.render_integers
        monkeypatch.setattr(json_output, "render_integers", self)

    def __call__(self, array: np.ndarray) -> bytes:
        self.threads.append(threading.get_ident())
        self.began.set()
        assert self.goes_on.wait(30)
        return self._render(array)


@pytest.fixture
def rendering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rendering]:
    rendering = Rendering(monkeypatch)
    yield rendering
    rendering.goes_on.set()


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add(echo_config("echo", DataType.INT32), lambda asked: [answer(asked, {"OUTPUT": LONG})])
    return server


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with http_frontend(server) as client:
        yield client


def serve_stream(server: FakeServer, *arrays: np.ndarray, decoupled: bool = True) -> None:
    config = ModelConfig("stream", inputs=(TensorSpec("IN", DataType.INT32, (-1,)),), decoupled=decoupled)
    server.add(config, lambda asked: [*(answer(asked, {"OUT": array}) for array in arrays), end(asked)])


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


async def test_a_large_answer_is_encoded_in_another_thread(client: Client, rendering: Rendering) -> None:
    got = await client.ask("POST", "/v2/models/echo/infer", INFER_ONE)
    assert json.loads(got.body)["outputs"][0]["data"] == LONG.tolist()
    assert len(rendering.threads) > 3, "in parts, between which others run"
    assert threading.get_ident() not in rendering.threads


async def test_a_small_one_is_encoded_at_once(client: Client, server: FakeServer, rendering: Rendering) -> None:
    server.add(echo_config("small", DataType.INT32))
    await client.ask("POST", "/v2/models/small/infer", INFER_ONE)
    assert rendering.threads == [threading.get_ident()]


async def test_others_are_answered_meanwhile(client: Client, rendering: Rendering) -> None:
    rendering.goes_on.clear()
    async with asyncio.TaskGroup() as tasks:
        large = tasks.create_task(client.ask("POST", "/v2/models/echo/infer", INFER_ONE))
        await until(rendering.began)
        assert (await client.ask("GET", "/v2/health/live")).status == 200
        assert not large.done()
        rendering.goes_on.set()


async def test_nothing_more_is_encoded_for_a_client_that_is_gone(
    client: Client, server: FakeServer, rendering: Rendering
) -> None:
    rendering.goes_on.clear()
    async with client.connect() as connection:
        await ask_raw(connection, "/v2/models/echo/infer", INFER_ONE)
        await until(rendering.began)
        await connection.reset()
    # One that asks later is heard later: the end of the connection has arrived by then.
    for _ in range(3):
        await client.ask("GET", "/v2/health/live")
    rendering.goes_on.set()
    await client.ask("POST", "/v2/models/echo/infer", INFER_ONE)
    parts = -(-len(LONG) // 16_384)
    assert len(rendering.threads) <= parts + 2


async def ask_raw(connection: RawClient, path: str, body: bytes) -> None:
    await connection.send(f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def test_a_stream_keeps_its_order_when_a_large_response_takes_longer(
    client: Client, server: FakeServer, rendering: Rendering
) -> None:
    serve_stream(server, SHORT, LONG, SHORT, LONG)
    got = await client.ask("POST", "/v2/models/stream/generate_stream", '{"IN":[1]}')
    events = [json.loads(line.removeprefix(b"data: ")) for line in got.body.split(b"\n\n") if line]
    assert [event["OUT"] for event in events] == [SHORT.tolist(), LONG.tolist(), SHORT.tolist(), LONG.tolist()]
    assert {thread == threading.get_ident() for thread in rendering.threads} == {True, False}


async def test_one_large_generated_answer(client: Client, server: FakeServer, rendering: Rendering) -> None:
    serve_stream(server, LONG, decoupled=False)
    got = await client.ask("POST", "/v2/models/stream/generate", '{"IN":[1]}')
    assert json.loads(got.body)["OUT"] == LONG.tolist()
    assert threading.get_ident() not in rendering.threads


async def test_two_large_answers_are_one_too_many_for_generate(
    client: Client, server: FakeServer, rendering: Rendering
) -> None:
    serve_stream(server, LONG, LONG)
    got = await client.ask("POST", "/v2/models/stream/generate", '{"IN":[1]}')
    assert b"exactly 1 response" in got.body


async def test_a_model_that_can_wait_does_so_while_a_response_is_encoded(
    client: Client, server: FakeServer, rendering: Rendering
) -> None:
    rendering.goes_on.clear()
    config = ModelConfig("stream", inputs=(TensorSpec("IN", DataType.INT32, (-1,)),), decoupled=True)
    server.add(config, lambda _: None)
    resumed: list[bool] = []
    async with asyncio.TaskGroup() as tasks:
        got = tasks.create_task(client.ask("POST", "/v2/models/stream/generate_stream", '{"IN":[1]}'))
        await server.submitted.wait()
        [request] = server.requests
        assert request.flow is not None
        request.flow.when_ready(lambda: resumed.append(True))
        large = answer(request, {"OUT": LONG})
        large.final = False
        request.sink.send(large)
        request.flow.when_ready(lambda: resumed.append(True))
        assert resumed == [True]
        request.sink.send(end(request))
        rendering.goes_on.set()
    assert resumed == [True, True]
    assert got.result().body.endswith(b"}\n\n")


async def test_what_waits_behind_a_response_that_is_encoded_is_bounded(
    server: FakeServer, rendering: Rendering
) -> None:
    rendering.goes_on.clear()
    serve_stream(server, *[LONG] * 60)
    async with http_frontend(server, stream_buffer_size=16 << 20) as client, client.connect() as connection:
        await ask_raw(connection, "/v2/models/stream/generate_stream", b'{"IN":[1]}')
        async with asyncio.timeout(30):
            await server.cancel_arrived.wait()
