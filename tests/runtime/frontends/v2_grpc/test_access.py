"""Access to what only gRPC has: streams and the health service. The rest is in the contract."""

from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest
import pytest_asyncio

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.frontends.v2_grpc import Frontend, Options
from tests.support.fake_server import FakeServer
from tests.support.grpc_calls import GrpcClient

pytestmark = pytest.mark.asyncio(loop_scope="session")

REQUEST = {
    "model_name": "echo",
    "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1.0]}}],
}


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(server: FakeServer, local: Options) -> AsyncIterator[GrpcClient]:
    frontend = Frontend(replace(local, access_tokens=AccessTokens(["sesame"])), server)
    await frontend.start()
    async with GrpcClient(frontend.address) as client:
        yield client
    await frontend.stop(0)


async def test_a_stream_needs_a_token(guarded: GrpcClient, server: FakeServer) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [answer async for answer in guarded.stream([REQUEST], metadata=[("authorization", "open")])]
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert caught.value.details() == "the access token is not one that this server accepts"
    assert not server.requests


async def test_a_stream_with_a_token(guarded: GrpcClient) -> None:
    call = guarded.stream([REQUEST, REQUEST], metadata=[("authorization", "Bearer sesame")])
    assert len([answer async for answer in call]) == 2


async def test_the_health_service_needs_none(guarded: GrpcClient) -> None:
    assert await guarded.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
