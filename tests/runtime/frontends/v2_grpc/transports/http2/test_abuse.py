"""Hostile clients over real sockets: sixteen honest ones lose nothing, and the server's memory stays bounded."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import numpy as np
import psutil
import pytest
import pytest_asyncio

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.frontends.v2_grpc import Frontend, Options
from tests.abuse.grpc_attacks import FRAMES
from tests.support.fake_server import FakeServer, answer, echo_config
from tests.support.grpc_calls import GrpcClient, message
from tests.support.streams import request

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

HONEST = 16
CALLS = 10
"""What each honest client asks at least, however short the attack is."""
MEMORY_BYTES = 200 << 20
"""What the process may grow by meanwhile, clients included."""


@pytest_asyncio.fixture(loop_scope="session")
async def frontend() -> AsyncIterator[Frontend]:
    server = FakeServer()
    server.record = False
    server.add(echo_config())
    server.add(
        ModelConfig("megabyte"), lambda asked: [answer(asked, {"OUTPUT": np.full(1 << 20, 7, np.uint8)})]
    )  # fmt: skip
    made = Frontend(Options(grpc_address="127.0.0.1", grpc_port=0, grpc_transport="http2"), server)
    await made.start()
    yield made
    await made.stop(0)


async def attack(frontend: Frontend, sent: Iterator[bytes]) -> asyncio.StreamWriter:
    """Send as much as the server takes, and read nothing; the connection is left open."""
    host, port = frontend.address.split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    with contextlib.suppress(ConnectionError, TimeoutError):
        for number, data in enumerate(sent):
            writer.write(data)
            if number % 50 == 0:
                await asyncio.wait_for(writer.drain(), 2)
        await asyncio.wait_for(writer.drain(), 2)
    return writer


async def work(client: GrpcClient, over: asyncio.Event) -> int:
    done = 0
    while done < CALLS or not over.is_set():
        assert await client.raw("ModelInfer", message(request("echo", "1", 1.0)))
        done += 1
    return done


@pytest.mark.parametrize("sent", FRAMES, ids=lambda sent: sent.__name__)
async def test_honest_clients_lose_nothing(frontend: Frontend, sent: Callable[[], Iterator[bytes]]) -> None:
    over = asyncio.Event()
    process = psutil.Process()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(GrpcClient(frontend.address)) for _ in range(HONEST)]
        await asyncio.gather(*(client.call("ServerReady") for client in clients))
        before = process.memory_info().rss
        working = [asyncio.create_task(work(client, over)) for client in clients]
        attackers = await asyncio.gather(*(attack(frontend, sent()) for _ in range(3)))
        grown = process.memory_info().rss - before
        over.set()
        assert min(await asyncio.gather(*working)) >= CALLS
        for attacker in attackers:
            attacker.transport.abort()
        assert max(grown, process.memory_info().rss - before) < MEMORY_BYTES
