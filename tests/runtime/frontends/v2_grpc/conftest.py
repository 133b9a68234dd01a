"""A server with three models, a frontend for it, a client of that; each test runs over every transport."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from charonia_runtime.frontends.v2_grpc import Frontend, Options
from charonia_runtime.frontends.v2_grpc.transports import transport_names
from tests.support.fake_server import FakeServer, echo_config
from tests.support.grpc_calls import GrpcClient
from tests.support.streams import OpenModel, counting


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


@pytest.fixture(params=transport_names())
def local(request: pytest.FixtureRequest) -> Options:
    """Options to serve tests with."""
    return Options(grpc_address="127.0.0.1", grpc_port=0, grpc_transport=request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def frontend(server: FakeServer, local: Options) -> AsyncIterator[Frontend]:
    made = Frontend(local, server)
    await made.start()
    yield made
    await made.stop(0)


@pytest_asyncio.fixture(loop_scope="session")
async def client(frontend: Frontend) -> AsyncIterator[GrpcClient]:
    async with GrpcClient(frontend.address) as made:
        yield made
