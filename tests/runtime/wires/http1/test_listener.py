"""A listener's life: serve, hang up on stalled clients, stop in time and without a poll."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from blockbuster import blockbuster_ctx

from charonia_runtime.wires.addresses import bind
from charonia_runtime.wires.http1.connection import Connection
from charonia_runtime.wires.http1.limits import Limits
from charonia_runtime.wires.http1.listener import Listener
from charonia_runtime.wires.http1.messages import ExcessiveRequestError, Request

GET = b"GET / HTTP/1.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Handler:
    """Answers at once, or with `holds` when it is told to."""

    def __init__(self, *, holds: bool = False) -> None:
        self.tasks = set[asyncio.Task[None]]()
        self.held: list[Connection] = []
        self.arrived = asyncio.Event()
        self.left = 0
        self._holds = holds

    def begin(self, connection: Connection, request: Request) -> None:
        connection.exchange = self
        self.held.append(connection)
        self.arrived.set()
        if not self._holds:
            self.release()

    def release(self) -> None:
        for connection in self.held:
            connection.answer(200, b"", [b"ok"])
        self.held = []

    def disconnected(self) -> None:
        self.left += 1

    def refuse(self, excess: ExcessiveRequestError) -> tuple[int, bytes, bytes]:
        return 400, b"", str(excess).encode()


Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[tuple[Listener, Open]]:
    """A started listener, and what opens connections to it."""
    listener = Listener(handler, Limits(body_bytes=100, read_timeout_seconds=10))
    bound = bind("127.0.0.1", 0)
    place = bound.getsockname()
    writers = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*place)
        writers.append(writer)
        return reader, writer

    await listener.start(bound)
    try:
        yield listener, connect
    finally:
        for writer in writers:
            writer.close()
        await listener.stop(0)


async def test_requests_are_answered() -> None:
    async with serving(Handler()) as (_, connect):
        reader, writer = await connect()
        for _ in range(3):
            writer.write(GET)
            assert await reader.readexactly(len(OK)) == OK


async def test_a_body_over_the_limit_gets_the_handler_s_words() -> None:
    async with serving(Handler()) as (_, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n")
        answer = await reader.read()

    assert answer.endswith(b"Connection: close\r\n\r\na body of 101 bytes, at most 100 are read")


async def test_clients_that_stall_are_hung_up_on() -> None:
    async with serving(Handler()) as (listener, connect):
        stalled, writer = await connect()
        writer.write(b"GET / HT")
        idle, idle_writer = await connect()
        idle_writer.write(GET)
        await idle.readexactly(len(OK))
        now = asyncio.get_running_loop().time()
        listener.close_stalled(now + 9)
        assert len(listener.connections) == 2
        listener.close_stalled(now + 11)
        with pytest.raises(asyncio.IncompleteReadError):
            await stalled.readexactly(1)
        idle_writer.write(GET)
        assert await idle.readexactly(len(OK)) == OK


async def test_a_stop_closes_idle_connections_and_finishes_answers() -> None:
    handler = Handler(holds=True)
    async with serving(handler) as (listener, connect):
        idle, _ = await connect()
        busy, writer = await connect()
        writer.write(GET)
        await handler.arrived.wait()
        stopping = asyncio.create_task(listener.stop(5))
        assert await idle.read() == b""
        assert not stopping.done()
        handler.release()
        assert await busy.read() == LAST_OK
        await stopping
        with pytest.raises(OSError):  # noqa: PT011 - whatever the system says
            await connect()


async def test_a_stop_needs_no_time_of_its_own() -> None:
    """Nothing is in flight: a few turns of the loop are enough, no timer runs."""
    async with serving(Handler()) as (listener, connect):
        reader, writer = await connect()
        writer.write(GET)
        await reader.readexactly(len(OK))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await listener.stop(5)

        assert loop.time() - began < 0.09


async def test_a_stop_gives_up_in_time() -> None:
    handler = Handler(holds=True)
    async with serving(handler) as (listener, connect):
        reader, writer = await connect()
        writer.write(GET)
        await handler.arrived.wait()
        await listener.stop(0.01)
        assert await reader.read() == b""
        assert handler.left == 1


async def test_a_stop_waits_for_tasks_and_cancels_them_when_time_is_over() -> None:
    handler = Handler()
    finish = asyncio.Event()
    async with serving(handler) as (listener, _):
        quick, endless = asyncio.ensure_future(finish.wait()), asyncio.ensure_future(asyncio.Event().wait())
        handler.tasks.update((quick, endless))  # type: ignore[arg-type]
        stopping = asyncio.create_task(listener.stop(0.05))
        await asyncio.sleep(0)
        finish.set()
        await stopping

    assert quick.done()
    assert not quick.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await endless


async def test_a_client_that_resets_is_forgotten() -> None:
    handler = Handler(holds=True)
    async with serving(handler) as (listener, connect):
        _, writer = await connect()
        writer.write(GET)
        await handler.arrived.wait()
        (connection,) = listener.connections
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()
        async with asyncio.timeout(5):
            await connection.lost
        assert listener.connections == set()
        assert handler.left == 1
        handler.release()


async def test_the_loop_is_never_blocked() -> None:
    with blockbuster_ctx():
        async with serving(Handler()) as (_, connect):
            reader, writer = await connect()
            writer.write(GET)
            assert await reader.readexactly(len(OK)) == OK
