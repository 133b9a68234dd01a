"""Flags that change calls: restrictions, forwarded metadata, delays."""

from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from charonia_runtime.frontends.v2_grpc import Frontend, Options
from tests.support.fake_server import FakeServer
from tests.support.grpc_calls import GrpcClient, message, refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

ECHO = {"model_name": "echo", "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [2]}]}


def echo_request(**fields: Any) -> bytes:
    return message({**ECHO, "raw_input_contents": ["AACAPwAAAEA="], **fields})


async def served(options: Options, server: FakeServer) -> Frontend:
    made = Frontend(options, server)
    await made.start()
    return made


async def test_restricted_calls_ask_for_a_secret(server: FakeServer, local: Options) -> None:
    options = replace(local, grpc_restricted_protocol=("inference,model-repository:Key=secret",))
    frontend = await served(options, server)
    refused = (
        grpc.StatusCode.UNAVAILABLE,
        "This protocol is restricted, expecting header 'triton-grpc-protocol-Key'",
    )
    secret = (("triton-grpc-protocol-key", "secret"),)
    async with GrpcClient(frontend.address) as client:
        assert await refusal(client.raw("ModelInfer", echo_request())) == refused
        assert (
            await refusal(client.raw("ModelInfer", b"\xff", metadata=(("triton-grpc-protocol-key", "x"),))) == refused
        )
        assert await refusal(client.call("RepositoryModelLoad", {"model_name": "m"})) == refused
        assert await refusal(client.streamed([])) == refused
        assert not server.requests
        assert not server.loads
        assert await client.raw("ModelInfer", echo_request(), metadata=secret)
        assert len(await client.streamed([echo_request()], metadata=secret)) == 1
        assert await client.call("ServerLive") == {"live": True}
    await frontend.stop(0)


async def test_metadata_is_forwarded(server: FakeServer, local: Options) -> None:
    frontend = await served(replace(local, grpc_header_forward_pattern="^X-"), server)
    metadata = (("x-tenant", "a"), ("x-raw-bin", b"\x01\xff"), ("other", "b"))
    async with GrpcClient(frontend.address) as client:
        await client.raw(
            "ModelInfer", echo_request(parameters={"x-tenant": {"string_param": "body"}}), metadata=metadata
        )
        await client.streamed([echo_request()], metadata=metadata)
        expected = {"x-tenant": "a", "x-raw-bin": "\x01\N{REPLACEMENT CHARACTER}"}
        assert [request.parameters for request in server.requests] == [expected, expected]
    await frontend.stop(0)


async def test_reserved_metadata_is_refused(server: FakeServer, local: Options) -> None:
    frontend = await served(replace(local, grpc_header_forward_pattern=".*"), server)
    async with GrpcClient(frontend.address) as client:
        found = await refusal(client.raw("ModelInfer", echo_request(), metadata=(("triton_x", "1"),)))
        assert found == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "Header 'triton_x' is reserved for Triton usage and cannot be forwarded.",
        )
    await frontend.stop(0)


async def test_answers_can_be_delayed_for_tests_of_clients(server: FakeServer, local: Options) -> None:
    frontend = await served(replace(local, response_delay_seconds=0.2), server)
    async with GrpcClient(frontend.address) as client:
        status, _ = await refusal(client.call("ServerLive", timeout=0.05))
        assert status is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await client.call("ServerLive") == {"live": True}
        assert await client.raw("ModelInfer", echo_request(), timeout=0.15)
    await frontend.stop(0)
