"""Descriptors that are kept free: when they are scarce, and who makes room."""

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from charonia_runtime.wires.addresses import bind
from charonia_runtime.wires.descriptors import RESERVE_SECONDS, Supply, close_longest_idle, supply_at
from charonia_runtime.wires.http1.limits import Limits
from charonia_runtime.wires.http1.listener import Listener
from tests.runtime.wires.http1.test_listener import GET, LAST_OK, OK, Handler
from tests.support.http2 import START, Calls
from tests.support.http2_listener import CALL, LAST_FRAME, serving


class FakeTransport(asyncio.BaseTransport):
    """The transport of a socket with a number."""

    def __init__(self, number: int) -> None:
        super().__init__({"socket": self})
        self._number = number

    def fileno(self) -> int:
        return self._number


@pytest.mark.parametrize(
    ("most", "number", "supply"),
    [
        (64, 55, Supply.AMPLE), (64, 56, Supply.SCARCE), (64, 59, Supply.SCARCE), (64, 60, Supply.SPENT),
        (1024, 959, Supply.AMPLE), (1024, 960, Supply.SCARCE), (1024, 992, Supply.SPENT),
        (1_000_000, 999_935, Supply.AMPLE), (1_000_000, 999_936, Supply.SCARCE),
        (resource.RLIM_INFINITY, 10**9, Supply.AMPLE),
    ],
)  # fmt: skip
def test_supply(most: int, number: int, supply: Supply) -> None:
    assert supply_at(FakeTransport(number), most) is supply


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving_http(handler: Handler) -> AsyncIterator[Callable[[], Awaitable[Ends]]]:
    """What opens connections to a started HTTP listener."""
    listener = Listener(handler, Limits(body_bytes=100, farewell_seconds=0))
    bound = bind("127.0.0.1", 0)
    place = bound.getsockname()
    writers = []

    async def connect() -> Ends:
        ends = await asyncio.open_connection(*place)
        writers.append(ends[1])
        return ends

    await listener.start(bound)
    try:
        yield connect
    finally:
        for writer in writers:
            writer.close()
        await listener.stop(0)


@dataclass
class Idle:
    """A connection that has been idle since `last_activity`."""

    last_activity: float
    is_closed: bool = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("count", "closed"), [(0, 0), (1, 1), (5, 1), (64, 4)])
def test_those_who_are_idle_for_longest_make_room(count: int, closed: int) -> None:
    idle = [Idle(float(at)) for at in range(count, 0, -1)]
    assert close_longest_idle(idle) is (count > 0)
    assert sorted(one.last_activity for one in idle if one.is_closed) == list(range(1, closed + 1))


@pytest.fixture
def no_gaps() -> Iterator[None]:
    """The free numbers of descriptors follow each other, whatever other tests have closed before."""
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not paths
    plugs = [os.dup(0)]
    while plugs[-1] < highest:
        plugs.append(os.dup(0))
    os.close(plugs.pop())
    yield
    for plug in plugs:
        os.close(plug)


@pytest.fixture
def spend(monkeypatch: pytest.MonkeyPatch, no_gaps: None) -> Any:
    """What makes descriptors scarce from now on: the next one is the first of the reserve, or of its last half."""

    def spend(*, all_of_it: bool = False) -> None:
        client, server = os.dup(0), os.dup(0)  # the numbers that the ends of the next connection will have
        os.close(client)
        os.close(server)
        wanted = Supply.SPENT if all_of_it else Supply.SCARCE
        limit = next(most for most in count(server + 2) if supply_at(FakeTransport(server), most) is wanted)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    return spend


async def test_an_idle_http_connection_makes_room(spend: Any) -> None:
    async with serving_http(Handler()) as connect:
        first, second = await connect(), await connect()
        for reader, writer in (second, first, second):
            writer.write(GET)
            await reader.readexactly(len(OK))
        spend()
        third = await connect()
        async with asyncio.timeout(5):
            assert await first[0].read() == b""
            for (reader, writer), answer in ((second, OK), (third, LAST_OK)):
                writer.write(GET)
                assert await reader.readexactly(len(answer)) == answer
            assert await third[0].read() == b""


async def test_a_connection_in_the_reserve_leaves_it(spend: Any) -> None:
    async with serving_http(Handler()) as connect:
        spend()
        reader, writer = await connect()
        writer.write(GET[:-1])
        async with asyncio.timeout(5 * RESERVE_SECONDS):
            assert await reader.read() == b""


async def test_a_busy_http_server_answers_once_or_not_at_all(spend: Any) -> None:
    handler = Handler(holds=True)
    async with serving_http(handler) as connect, asyncio.timeout(30):
        _, busy = await connect()
        busy.write(GET)
        await handler.arrived.wait()
        handler.arrived.clear()
        spend()
        reader, writer = await connect()
        writer.write(GET)
        await handler.arrived.wait()
        handler.release()
        assert b"Connection: close" in await reader.read()
        busy.write(GET)
        await handler.arrived.wait()
        spend(all_of_it=True)
        reader, _ = await connect()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)


async def test_an_idle_grpc_connection_makes_room(spend: Any) -> None:
    async with serving(Calls()) as (_, connect):
        idle, idle_writer = await connect()
        idle_writer.write(START + CALL)
        await idle.readuntil(LAST_FRAME)
        spend(all_of_it=True)
        reader, writer = await connect()
        writer.write(START + CALL)
        await reader.readuntil(LAST_FRAME)
        async with asyncio.timeout(5):
            assert (await idle.read()).endswith(b"no room for idle connections")
