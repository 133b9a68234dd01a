"""Single inference calls, with clients that real users have."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ERROR_CLASSES, ErrorCode, InternalError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.frontends.v2_grpc import Frontend
from tests.support.fake_server import FakeServer, answer, echo_config, failure
from tests.support.grpc_calls import GrpcClient, message, refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

ECHO = {"model_name": "echo", "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [2]}]}


def echo_request(**fields: Any) -> bytes:
    return message({**ECHO, "raw_input_contents": ["AACAPwAAAEA="], **fields})


async def test_the_asyncio_client_gets_its_tensor_back(frontend: Frontend) -> None:
    array = np.arange(5, dtype=np.float32)
    tensor = tritonclient.grpc.aio.InferInput("INPUT", [5], "FP32")
    tensor.set_data_from_numpy(array)
    async with tritonclient.grpc.aio.InferenceServerClient(frontend.address) as user:
        result = await user.infer("echo", [tensor], request_id="7")
    assert np.array_equal(result.as_numpy("OUTPUT"), array)
    response = result.get_response()
    assert (response.model_name, response.model_version, response.id) == ("echo", "1", "7")


async def test_the_blocking_client_gets_bytes_back(server: FakeServer, frontend: Frontend) -> None:
    server.add(echo_config("text", DataType.BYTES))
    array = np.array([b"", b"text", "naïve ☃".encode()], dtype=object)
    tensor = tritonclient.grpc.InferInput("INPUT", [3], "BYTES")
    tensor.set_data_from_numpy(array)

    def ask() -> Any:
        with tritonclient.grpc.InferenceServerClient(frontend.address) as user:
            return user.infer("text", [tensor], outputs=[tritonclient.grpc.InferRequestedOutput("OUTPUT")])

    result = await asyncio.to_thread(ask)
    assert result.as_numpy("OUTPUT").tolist() == array.tolist()


@pytest.mark.parametrize(
    "compression", [grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression]
)
async def test_compressed_requests_are_understood(client: GrpcClient, compression: grpc.Compression) -> None:
    assert await client.raw("ModelInfer", echo_request(), compression=compression)


async def test_a_message_above_the_usual_limits(server: FakeServer, client: GrpcClient) -> None:
    array = np.zeros(5_000_000, dtype=np.float32)
    request = {"model_name": "echo", "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [array.size]}]}
    response = await client.raw("ModelInfer", message(request) + b"\x3a\x80\xda\xc4\x09" + array.tobytes())
    assert len(response) > array.nbytes
    assert server.requests[0].inputs["INPUT"].byte_size == array.nbytes


async def test_numbers_by_the_megabyte_are_decoded_too(client: GrpcClient) -> None:
    numbers = np.arange(300_000, dtype=np.float32)
    tensor = {
        "name": "INPUT",
        "datatype": "FP32",
        "shape": [numbers.size],
        "contents": {"fp32_contents": numbers.tolist()},
    }
    response = await client.raw("ModelInfer", message({"model_name": "echo", "inputs": [tensor]}))
    assert response.endswith(numbers.tobytes())


async def test_a_burst_of_calls_loses_none(client: GrpcClient) -> None:
    calls = [client.raw("ModelInfer", echo_request(id=str(number))) for number in range(3000)]
    for number, answered in enumerate(await asyncio.gather(*calls)):
        assert b"\x1a" + bytes((len(str(number)),)) + str(number).encode() in answered


async def test_outputs_in_shared_memory_and_parameters(server: FakeServer, client: GrpcClient) -> None:
    def respond(request: InferenceRequest) -> list[InferenceResponse]:
        region = request.outputs[0].shared_memory
        assert region is not None
        return [
            answer(request, {"OUTPUT": Tensor("OUTPUT", DataType.INT8, (8,), region)}, parameters={"a": 1, "b": 1.5})
        ]

    server.add(echo_config("shared"), respond)
    outputs = [{
        "name": "OUTPUT",
        "parameters": {"shared_memory_region": {"string_param": "r"}, "shared_memory_byte_size": {"int64_param": 8}},
    }]  # fmt: skip
    found = await client.call("ModelInfer", {"model_name": "shared", "outputs": outputs})
    assert found["raw_output_contents"] == [""]
    assert found["parameters"] == {"a": {"int64_param": "1"}, "b": {"double_param": 1.5}}


@pytest.mark.parametrize("code", ErrorCode)
async def test_each_error_code_has_its_status(server: FakeServer, client: GrpcClient, code: ErrorCode) -> None:
    error = ERROR_CLASSES[code]("asked for ☃")
    server.add(echo_config("fault"), lambda request: [failure(request, error)])
    found = await refusal(client.raw("ModelInfer", message({"model_name": "fault"})))
    name = "UNIMPLEMENTED" if code is ErrorCode.UNSUPPORTED else code.name
    assert found == (grpc.StatusCode[name], "asked for ☃")


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        ({}, "NOT_FOUND", "Request for unknown model: '' is not found"),
        ({"model_name": "nothing"}, "NOT_FOUND", "Request for unknown model: 'nothing' is not found"),
        (
            {"model_name": "nothing", "model_version": "abc"},
            "INVALID_ARGUMENT",
            ("failed to get model version from specified version string 'abc' (details: stol), version should be an "
            "integral value > 0"),
        ),
        (
            {"model_name": "echo", "model_version": "-1"},
            "INVALID_ARGUMENT",
            "invalid model version specified '-1' , version should be an integral value > 0",
        ),
        ({"model_name": "echo", "model_version": "7"}, "NOT_FOUND", "Request for unknown model: 'echo' version 7 is not found"),
        (
            {"model_name": "decoupled", "parameters": {"x": {}}},
            "UNIMPLEMENTED",
            "ModelInfer RPC doesn't support models with decoupled transaction policy",
        ),
        (ECHO, "INVALID_ARGUMENT", "unable to find data for input tensor 'INPUT' for model 'echo' in request."),
    ],
)  # fmt: skip
async def test_refused_before_the_model(
    server: FakeServer, client: GrpcClient, request_: dict[str, Any], status: str, text: str
) -> None:
    server.add(ModelConfig("decoupled", decoupled=True))
    assert await refusal(client.raw("ModelInfer", message(request_))) == (grpc.StatusCode[status], text)
    assert not server.requests


async def test_a_model_that_answers_twice(server: FakeServer, client: GrpcClient) -> None:
    server.add(echo_config("twice"), lambda request: [answer(request, {}), answer(request, {})])
    found = await refusal(client.raw("ModelInfer", message({"model_name": "twice"})))
    assert found == (grpc.StatusCode.INTERNAL, "expected a single response, got 2")


async def test_defects_of_ours_are_not_told(
    server: FakeServer, client: GrpcClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.submit_error = ZeroDivisionError("secret")
    found = await refusal(client.raw("ModelInfer", echo_request()))
    assert found == (grpc.StatusCode.INTERNAL, "internal error; see the server's log")
    assert "ZeroDivisionError: secret" in caplog.text


@pytest.mark.parametrize(
    "text", ["line\n" * 3000, "x" * 20_000, "☃" * 5000, "%" * 9000, "\N{LINEAR B SYLLABLE B008 A}" * 2000]
)
async def test_the_beginning_of_long_error_texts_arrives(server: FakeServer, client: GrpcClient, text: str) -> None:
    server.add(echo_config("fault"), lambda request: [failure(request, InternalError(text))])
    status, details = await refusal(client.raw("ModelInfer", message({"model_name": "fault"})))
    assert status is grpc.StatusCode.INTERNAL
    assert details is not None
    assert len(details) > 500
    assert text.startswith(details.removesuffix("…"))


@pytest.mark.parametrize(
    "method", ["ModelInfer", "ServerLive", "ModelReady", "RepositoryModelLoad", "/grpc.health.v1.Health/Check"]
)
async def test_undecodable_requests(client: GrpcClient, method: str) -> None:
    undecodable = (grpc.StatusCode.INTERNAL, "Unable to parse request")
    assert await refusal(client.raw(method, b"\xff\xff\xff\xff")) == undecodable
    if method != "ServerLive":  # a field that the message lacks may hold anything
        assert await refusal(client.raw(method, b"\x0a\x02\xff\xff")) == undecodable


# --- cancellation ---


class Pending:
    """A model that never answers by itself and says when it has a request."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def __call__(self, request: InferenceRequest) -> None:
        self.asked.set()


async def test_a_client_that_cancels_cancels_the_request(server: FakeServer, client: GrpcClient) -> None:
    pending = Pending()
    server.add(echo_config("slow"), pending)
    call = asyncio.create_task(client.raw("ModelInfer", message({"model_name": "slow"})))
    await pending.asked.wait()
    call.cancel()
    await server.cancel_arrived.wait()
    assert server.cancelled == server.requests


async def test_a_deadline_cancels_the_request(server: FakeServer, client: GrpcClient) -> None:
    server.add(echo_config("slow"), Pending())
    status, _ = await refusal(client.raw("ModelInfer", message({"model_name": "slow"}), timeout=0.05))
    assert status is grpc.StatusCode.DEADLINE_EXCEEDED
    await server.cancel_arrived.wait()


async def test_answers_to_the_cancelled_are_dropped(server: FakeServer, client: GrpcClient) -> None:
    server.add(echo_config("slow"), Pending())
    await refusal(client.raw("ModelInfer", message({"model_name": "slow"}), timeout=0.05))
    await server.cancel_arrived.wait()
    server.answer(server.requests[0], [answer(server.requests[0], {})])
    assert await client.call("ServerLive") == {"live": True}
