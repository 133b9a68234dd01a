"""ModelStreamInfer: answers, their order, final flags, errors."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
import tritonclient.grpc.aio

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.frontends.v2_grpc import Frontend
from tests.support.fake_server import FakeServer, answer, echo, echo_config, end, failure
from tests.support.grpc_calls import GrpcClient, stream_document
from tests.support.streams import OpenModel, request, rest_of, summary

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

FINAL = {"triton_final_response": {"bool_param": True}}
NOT_FINAL = {"triton_final_response": {"bool_param": False}}


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


@pytest.mark.parametrize("second", ["response", "error"])
async def test_a_usual_model_that_sends_more_than_one_response(
    server: FakeServer, client: GrpcClient, second: str
) -> None:
    """As on Triton 2.51, the stream has the first and hears nothing of the others."""

    def send_two(asked: InferenceRequest) -> list[InferenceResponse]:
        more = echo(asked) if second == "response" else [failure(asked, InvalidArgumentError("too many"))]
        return [*echo(asked), *more]

    server.add(echo_config("two"), send_two)
    found = await client.streamed([request("two", "1", 1.0), request("echo", "2", 1.0)])
    assert [response["infer_response"]["id"] for response in found] == ["1", "2"]
    assert found[0]["infer_response"]["parameters"] == NOT_FINAL


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
