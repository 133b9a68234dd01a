"""ModelStreamInfer: order, final flags, errors, cancellation, clients that do not read."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
import pytest_asyncio
import tritonclient.grpc.aio

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.frontends.v2_grpcio import Frontend, Options
from tests.support.fake_server import FakeServer, answer, echo_config, end, failure
from tests.support.grpc_calls import GrpcClient, message, stream_document

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

LOCAL = Options(grpc_address="127.0.0.1", grpc_port=0)
FINAL = {"triton_final_response": {"bool_param": True}}
NOT_FINAL = {"triton_final_response": {"bool_param": False}}


class OpenModel:
    """A model whose requests stay open until the test answers them."""

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []
        self._asked = asyncio.Condition()

    def __call__(self, request: InferenceRequest) -> None:
        self.requests.append(request)
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self._asked:
            self._asked.notify_all()

    async def asked(self, count: int) -> list[InferenceRequest]:
        """The requests, once there are `count` of them."""
        async with self._asked:
            await self._asked.wait_for(lambda: len(self.requests) >= count)
        return self.requests


def counting(request: InferenceRequest) -> list[InferenceResponse]:
    """A decoupled model: one response for each element, then the final flag alone."""
    elements = request.inputs["INPUT"].as_numpy() if request.inputs else np.zeros(0)
    return [*(answer(request, {"OUTPUT": np.array([value], np.float32)}) for value in elements), end(request)]


@pytest.fixture
def slow() -> OpenModel:
    return OpenModel()


@pytest.fixture
def server(slow: OpenModel) -> FakeServer:
    made = FakeServer()
    made.add(echo_config())
    made.add(echo_config("slow"), slow)
    made.add(replace(echo_config("counting"), decoupled=True), counting)
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def frontend(server: FakeServer) -> AsyncIterator[Frontend]:
    made = Frontend(LOCAL, server)
    await made.start()
    yield made
    await made.stop(0)


@pytest_asyncio.fixture(loop_scope="session")
async def client(frontend: Frontend) -> AsyncIterator[GrpcClient]:
    async with GrpcClient(frontend.address) as made:
        yield made


def request(model: str, identifier: str = "", *values: float, **fields: Any) -> dict[str, Any]:
    tensor = {"name": "INPUT", "datatype": "FP32", "shape": [len(values)], "contents": {"fp32_contents": values}}
    return {"model_name": model, "id": identifier, "inputs": [tensor], **fields}


def summary(responses: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Id and error of each response."""
    return [(found["infer_response"].get("id", ""), found.get("error_message", "")) for found in responses]


async def rest_of(call: Any) -> list[bytes]:
    """Every response that is still to come."""
    found = []
    while (data := await call.read()) is not grpc.aio.EOF:
        found.append(data)
    return found


# --- answers ---


async def test_the_answer_of_a_usual_model_is_final(client: GrpcClient) -> None:
    (found,) = await client.streamed([request("echo", "7", 1.0)])
    assert found == {
        "infer_response": {
            "model_name": "echo", "model_version": "1", "id": "7", "parameters": FINAL,
            "outputs": [{"name": "OUTPUT", "datatype": "FP32", "shape": ["1"]}], "raw_output_contents": ["AACAPw=="],
        }
    }  # fmt: skip


async def test_an_empty_stream_ends_well(client: GrpcClient) -> None:
    assert await client.streamed([]) == []


async def test_a_decoupled_model_sends_what_it_likes(client: GrpcClient) -> None:
    found = await client.streamed([request("counting", "7", 1.0, 2.0)])
    assert [response["infer_response"]["parameters"] for response in found] == [NOT_FINAL, NOT_FINAL]
    assert await client.streamed([request("counting", "8")]) == []


async def test_the_final_flag_alone_is_sent_on_request(client: GrpcClient) -> None:
    wish = {"triton_enable_empty_final_response": {"bool_param": True}}
    found = await client.streamed([request("counting", "7", 1.0, model_version="1", parameters=wish)])
    assert found[1:] == [
        {"infer_response": {"model_name": "counting", "model_version": "1", "id": "7", "parameters": FINAL}}
    ]
    (last,) = await client.streamed([request("counting", parameters=wish)])
    assert last == {"infer_response": {"model_name": "counting", "parameters": FINAL}}
    (only,) = await client.streamed([request("echo", parameters=wish)])
    assert only["infer_response"]["parameters"] == FINAL


async def test_the_streaming_client_of_tritonclient(frontend: Frontend) -> None:
    tensor = tritonclient.grpc.aio.InferInput("INPUT", [3], "FP32")
    tensor.set_data_from_numpy(np.array([1, 2, 3], np.float32))

    async def requests() -> AsyncIterator[dict[str, Any]]:
        for name in ("echo", "counting"):
            yield {"model_name": name, "inputs": [tensor], "request_id": name}

    found = []
    async with tritonclient.grpc.aio.InferenceServerClient(frontend.address) as user:
        async for result, error in user.stream_infer(requests()):
            assert error is None
            found.append((result.get_response().id, result.as_numpy("OUTPUT").tolist()))
    assert found == [("echo", [1, 2, 3]), ("counting", [1]), ("counting", [2]), ("counting", [3])]


# --- order ---


async def test_usual_answers_keep_the_order_of_requests_and_decoupled_ones_overtake(
    server: FakeServer, slow: OpenModel, client: GrpcClient
) -> None:
    call = client.stream([
        request("slow", "1"), request("nothing", "2"), request("echo", "3"), request("counting", "4", 1.0),
        request("slow", "5"), request("counting", "6", model_version="9"),
    ])  # fmt: skip
    overtaking = stream_document(await call.read())
    assert overtaking["infer_response"]["id"] == "4"
    first, last = await slow.asked(2)
    server.answer(last, [answer(last, {})])
    server.answer(first, [answer(first, {})])
    found = [stream_document(data) for data in await rest_of(call)]
    assert [identifier for identifier, _ in summary(found)] == ["1", "2", "3", "5", "6"]
    assert await call.code() is grpc.StatusCode.OK


async def test_refusals_of_decoupled_requests_overtake_too(
    server: FakeServer, slow: OpenModel, client: GrpcClient
) -> None:
    call = client.stream([request("slow", "1"), request("counting", "2", parameters={"x": {}})])
    assert summary([stream_document(await call.read())])[0][0] == "2"
    (first,) = await slow.asked(1)
    server.answer(first, [answer(first, {})])
    assert summary([stream_document(await call.read())]) == [("1", "")]


async def test_a_thousand_requests_in_one_stream(client: GrpcClient) -> None:
    found = await client.streamed([request("echo", str(number), float(number)) for number in range(1000)])
    assert [identifier for identifier, _ in summary(found)] == [str(number) for number in range(1000)]


# --- errors ---


async def test_bad_requests_are_answered_and_the_stream_goes_on(client: GrpcClient) -> None:
    missing = {"model_name": "echo", "id": "5", "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1]}]}
    found = await client.streamed([
        b"\xff\xff\xff\xff", request("nothing", "1"), request("echo", "2", model_version="abc"),
        request("echo", "3", parameters={"triton_enable_empty_final_response": {"string_param": "true"}}),
        missing, request("nothing"), request("echo", "6"),
    ])  # fmt: skip
    assert summary(found) == [
        ("", "Unable to parse request"),
        ("1", "Request for unknown model: 'nothing' is not found"),
        (
            "2",
            "failed to get model version from specified version string 'abc' (details: stol), version should be an integral value > 0",
        ),
        ("3", "invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param."),
        ("5", "unable to find data for input tensor 'INPUT' for model 'echo' in request."),
        ("", "Request for unknown model: 'nothing' is not found"),
        ("6", ""),
    ]
    assert all(set(response["infer_response"]) <= {"id"} for response in found[:-1])


async def test_what_the_engine_refuses_is_answered_in_the_stream(server: FakeServer, client: GrpcClient) -> None:
    server.submit_error = InvalidArgumentError("[request id: 1] wrong")
    found = await client.streamed([request("echo", "1"), request("counting", "2")])
    assert sorted(summary(found)) == [("1", "[request id: 1] wrong"), ("2", "[request id: 1] wrong")]
    assert all(set(response["infer_response"]) == {"id"} for response in found)


async def test_an_error_in_the_middle_does_not_end_a_decoupled_answer(server: FakeServer, client: GrpcClient) -> None:
    def respond(asked: InferenceRequest) -> list[InferenceResponse]:
        return [
            answer(asked, {}),
            failure(asked, UnavailableError("negative \udcff element")),
            answer(asked, {}),
            end(asked),
        ]

    server.add(ModelConfig("faulty", decoupled=True), respond)
    found = await client.streamed([{"model_name": "faulty", "id": "m"}])
    assert summary(found) == [("m", ""), ("m", "negative \\udcff element"), ("m", "")]
    assert found[1]["infer_response"] == {"model_name": "faulty", "id": "m", "parameters": NOT_FINAL}


async def test_an_error_of_an_execution_repeats_the_request(server: FakeServer, client: GrpcClient) -> None:
    server.add(ModelConfig("faulty"), lambda asked: [failure(asked, UnavailableError("busy"))])
    (found,) = await client.streamed([{"model_name": "faulty", "id": "m"}])
    assert found == {
        "error_message": "busy", "infer_response": {"model_name": "faulty", "id": "m", "parameters": FINAL},
    }  # fmt: skip


async def test_answers_that_cannot_be_encoded_are_errors(server: FakeServer, client: GrpcClient) -> None:
    server.add(ModelConfig("faulty"), lambda asked: [answer(asked, {}, parameters={"x": 2**70})])
    (found,) = await client.streamed([{"model_name": "faulty"}])
    assert found["error_message"] == "internal error; see the server's log"


STATUS = (("triton_grpc_error", "true"),)


async def test_errors_end_the_stream_where_the_client_asks_for_it(
    server: FakeServer, slow: OpenModel, client: GrpcClient
) -> None:
    faulty = OpenModel()
    server.add(ModelConfig("faulty"), faulty)
    call = client.stream([request("nothing", "1"), request("slow", "2"), {"model_name": "faulty"}], metadata=STATUS)
    assert summary([stream_document(await call.read())]) == [("1", "Request for unknown model: 'nothing' is not found")]
    (asked,) = await faulty.asked(1)
    server.answer(asked, [failure(asked, UnavailableError("busy"))])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAVAILABLE, "busy")
    await server.cancel_arrived.wait()
    assert slow.requests[0] in server.cancelled


@pytest.mark.parametrize("value", ["True", "1", "false"])
async def test_any_other_value_leaves_errors_in_the_stream(server: FakeServer, client: GrpcClient, value: str) -> None:
    server.add(ModelConfig("faulty"), lambda asked: [failure(asked, UnavailableError("busy"))])
    found = await client.streamed([{"model_name": "faulty", "id": "1"}], metadata=(("triton_grpc_error", value),))
    assert summary(found) == [("1", "busy")]


# --- clients that go, and clients that do not read ---


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


async def test_a_model_is_held_back_while_its_client_reads_nothing(server: FakeServer) -> None:
    producer = Producer(total=200, size=1 << 20)
    server.add(ModelConfig("producer", decoupled=True), producer)
    frontend = Frontend(replace(LOCAL, grpc_max_response_pool_size=3), server)
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
