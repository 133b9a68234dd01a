"""Clients of ModelStreamInfer that go away, and clients that do not read."""

import asyncio
from dataclasses import replace

import grpc
import grpc.aio
import numpy as np
import pytest

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.frontends.v2_grpc import Frontend, Options
from tests.support.fake_server import FakeServer, answer
from tests.support.grpc_calls import GrpcClient, message, stream_document
from tests.support.streams import OpenModel, request, rest_of, summary

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

FINAL = {"triton_final_response": {"bool_param": True}}
NOT_FINAL = {"triton_final_response": {"bool_param": False}}


async def test_a_client_that_cancels_cancels_its_requests(
    server: FakeServer, slow: OpenModel, client: GrpcClient
) -> None:
    call = client.stream()
    for _ in range(3):
        await call.write(message(request("slow")))
    asked = await slow.asked(3)
    call.cancel()
    await server.cancel_arrived.wait()
    assert sorted(map(id, server.cancelled)) == sorted(map(id, asked))
    server.answer(asked[0], [answer(asked[0], {})])
    assert len(await client.streamed([request("echo")])) == 1


async def test_a_deadline_cancels_the_requests_of_a_stream(server: FakeServer, client: GrpcClient) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.streamed([request("slow")], timeout=0.1)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await server.cancel_arrived.wait()


async def test_a_lost_connection_cancels_the_requests_of_a_stream(
    server: FakeServer, slow: OpenModel, frontend: Frontend
) -> None:
    lost = GrpcClient(frontend.address)
    call = lost.stream()
    await call.write(message(request("slow")))
    await slow.asked(1)
    await lost.channel.close()
    await server.cancel_arrived.wait()


async def test_half_closed_streams_wait_for_their_answers(
    server: FakeServer, slow: OpenModel, client: GrpcClient
) -> None:
    call = client.stream()
    await call.write(message(request("slow", "1")))
    await call.done_writing()
    (asked,) = await slow.asked(1)
    server.answer(asked, [answer(asked, {})])
    assert summary([stream_document(data) for data in await rest_of(call)]) == [("1", "")]


class Producer:
    """A decoupled model that sends responses of `size` bytes as fast as it is let, and counts them."""

    def __init__(self, total: int, size: int) -> None:
        self.total = total
        self.sent = 0
        self.held_back = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._data = np.zeros(size, np.uint8)

    def __call__(self, asked: InferenceRequest) -> None:
        self.task = asyncio.get_running_loop().create_task(self._produce(asked))

    async def _produce(self, asked: InferenceRequest) -> None:
        assert asked.flow is not None
        while self.sent < self.total:
            room = asyncio.Event()
            asked.flow.when_ready(room.set)
            if not room.is_set():
                self.held_back.set()
            await room.wait()
            self.sent += 1
            response = answer(asked, {"OUTPUT": self._data})
            response.final = self.sent == self.total
            asked.sink.send(response)


async def test_a_model_is_held_back_while_its_client_reads_nothing(server: FakeServer, local: Options) -> None:
    producer = Producer(total=200, size=1 << 20)
    server.add(ModelConfig("producer", decoupled=True), producer)
    frontend = Frontend(replace(local, grpc_max_response_pool_size=3), server)
    await frontend.start()
    async with GrpcClient(frontend.address) as client:
        call = client.stream()
        await call.write(message({"model_name": "producer"}))
        await producer.held_back.wait()
        assert producer.sent < 20
        await call.done_writing()
        assert len(await rest_of(call)) == 200
    await frontend.stop(0)


async def test_even_without_a_limit_only_so_many_bytes_wait(server: FakeServer, client: GrpcClient) -> None:
    producer = Producer(total=40, size=8 << 20)
    server.add(ModelConfig("producer", decoupled=True), producer)
    call = client.stream()
    await call.write(message({"model_name": "producer"}))
    await producer.held_back.wait()
    assert producer.sent < 20
    call.cancel()
    assert producer.task is not None
    await producer.task


async def test_requests_are_not_read_while_answers_wait(server: FakeServer, client: GrpcClient) -> None:
    large = np.zeros(8 << 20, np.uint8)
    server.add(ModelConfig("large"), lambda asked: [answer(asked, {"OUTPUT": large})])
    call = client.stream([{"model_name": "large", "id": str(number)} for number in range(40)])
    assert summary([stream_document(await call.read())]) == [("0", "")]
    assert len(server.requests) < 25
    assert len(await rest_of(call)) == 39
    assert len(server.requests) == 40


async def test_silent_streams_cost_nobody_else(client: GrpcClient) -> None:
    silent = [client.stream() for _ in range(1500)]
    for call in silent:
        await call.wait_for_connection()
    assert len(await client.streamed([request("echo", "1", 1.0)])) == 1
    for call in silent:
        call.cancel()


async def test_nothing_is_logged_about_clients_that_go(
    server: FakeServer, slow: OpenModel, client: GrpcClient, caplog: pytest.LogCaptureFixture
) -> None:
    call = client.stream()
    await call.write(message(request("slow")))
    await slow.asked(1)
    call.cancel()
    await server.cancel_arrived.wait()
    reading = client.stream([request("counting", "", *range(2000))])
    await reading.read()
    reading.cancel()
    assert len(await client.streamed([request("echo")])) == 1
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "WARNING"}]


async def test_a_client_that_is_too_far_behind_is_cut_off(
    server: FakeServer, client: GrpcClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing holds its model back: one that sends from a thread."""

    def flood(asked: InferenceRequest) -> None:
        data = np.zeros(1 << 20, np.uint8)
        for _ in range(60):
            response = answer(asked, {"OUTPUT": data})
            response.final = False
            asked.sink.send(response)

    server.add(ModelConfig("flood", decoupled=True), flood)
    call = client.stream()
    await call.write(message({"model_name": "flood"}))
    await server.cancel_arrived.wait()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rest_of(call)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert sum("stream-buffer-size" in record.getMessage() for record in caplog.records) == 1
    assert len(await client.streamed([request("counting", "7", 1.0)])) == 1
