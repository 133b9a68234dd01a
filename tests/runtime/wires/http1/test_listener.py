"""A listener's life: serve, hang up on stalled clients, stop in time and without a poll."""

import asyncio
import dataclasses
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from blockbuster import blockbuster_ctx
from typing_extensions import override

from charonia_runtime.wires.addresses import bind
from charonia_runtime.wires.http1.connection import Connection
from charonia_runtime.wires.http1.limits import HALF_CLOSED_LOOK_SECONDS, Limits
from charonia_runtime.wires.http1.listener import Listener
from charonia_runtime.wires.http1.messages import RefusedRequestError, Request

GET = b"GET / HTTP/1.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMITS = Limits(
    body_bytes=100, read_timeout_seconds=10, head_timeout_seconds=15, idle_timeout_seconds=100,
    write_timeout_seconds=20, farewell_seconds=0,
)  # fmt: skip
LAST_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Handler:
    """Answers at once, or with `holds` when it is told to."""

    def __init__(self, *, holds: bool = False) -> None:
        self.tasks = set[asyncio.Task[None]]()
        self.answered = defaultdict[int | str, int](int)
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

    def refuse(self, _: Connection, refusal: RefusedRequestError) -> tuple[int, bytes, bytes]:
        return 400, b"", str(refusal).encode()


class LargeAnswers(Handler):
    """Answers at once, with a megabyte."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.full = asyncio.Event()
        """A client does not keep up."""

    @override
    def begin(self, connection: Connection, request: Request) -> None:
        self.begun += 1
        connection.answer(200, b"", [bytes(1_000_000)])
        if not connection._is_writable:
            self.full.set()


class Raising(Handler):
    """Does what no handler should."""

    @override
    def begin(self, connection: Connection, request: Request) -> None:
        raise ValueError("a defect")


Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def serving(handler: Handler, limits: Limits = LIMITS) -> AsyncIterator[tuple[Listener, Open]]:
    """A started listener, and what opens connections to it."""
    listener = Listener(handler, limits)
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


async def test_requests_are_answered_and_counted() -> None:
    handler = Handler()
    async with serving(handler) as (_, connect):
        reader, writer = await connect()
        for _ in range(3):
            writer.write(GET)
            assert await reader.readexactly(len(OK)) == OK
        writer.write(b"garbage\r\n\r\n")
        await reader.read()
    assert handler.answered == {200: 3, 400: 1}


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
        assert (await stalled.read()).endswith(b"the request took too long to arrive")
        idle_writer.write(GET)
        assert await idle.readexactly(len(OK)) == OK


async def test_idle_connections_are_closed_at_last() -> None:
    async with serving(Handler()) as (listener, connect):
        reader, writer = await connect()
        writer.write(GET)
        await reader.readexactly(len(OK))
        now = asyncio.get_running_loop().time()
        listener.close_stalled(now + 99)
        writer.write(GET)
        await reader.readexactly(len(OK))
        listener.close_stalled(now + 120)
        assert await reader.read() == b""


async def test_a_client_that_does_not_read_holds_only_itself_and_is_closed() -> None:
    """It has one answer that waits and is served nothing more: nothing grows. It is closed after the time allowed."""
    handler = LargeAnswers()
    async with serving(handler) as (listener, connect):
        _, writer = await connect()
        (connection,) = listener.connections
        for _ in range(64):
            writer.write(GET * 1000)
        async with asyncio.timeout(5):
            await handler.full.wait()
        begun = handler.begun
        for _ in range(1000):
            await asyncio.sleep(0)
        assert handler.begun == begun < 100
        now = asyncio.get_running_loop().time()
        for seconds in (0, 19):
            listener.close_stalled(now + seconds)
        assert listener.connections
        listener.close_stalled(now + 21)
        async with asyncio.timeout(5):
            await connection.lost


async def test_a_client_that_reads_again_gets_every_answer() -> None:
    handler = LargeAnswers()
    async with serving(handler) as (_, connect):
        reader, writer = await connect()
        writer.write(GET * 100)
        async with asyncio.timeout(5):
            await handler.full.wait()
            for _ in range(100):
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"Content-Length: 1000000\r\n" in head
                await reader.readexactly(1_000_000)


async def test_an_exception_of_the_handler_is_an_answer_and_a_log_record(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Raising()) as (_, connect):
        reader, writer = await connect()
        for _ in range(2):
            writer.write(GET)
            answer = await reader.readuntil(b"unexpected error while answering the request")
            assert b"Content-Length" in answer
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("a defect",)] * 2


async def test_a_half_closed_request_is_answered() -> None:
    handler = Handler(holds=True)
    async with serving(handler) as (_, connect):
        reader, writer = await connect()
        writer.write(GET)
        writer.write_eof()
        await handler.arrived.wait()
        await asyncio.sleep(0.01)
        handler.release()
        assert await reader.read() == LAST_OK


async def test_a_half_closed_client_waits_longer_than_the_server_looks_for_it() -> None:
    handler = Handler(holds=True)
    async with serving(handler) as (_, connect):
        reader, writer = await connect()
        writer.write(GET)
        writer.write_eof()
        await handler.arrived.wait()
        await asyncio.sleep(3 * HALF_CLOSED_LOOK_SECONDS)
        assert handler.left == 0
        handler.release()
        assert await reader.read() == b"HTTP/1.1 100 Continue\r\n\r\n" + LAST_OK


@pytest.mark.parametrize("data", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"])
async def test_a_client_that_closes_its_half_before_it_asked_is_closed(data: bytes) -> None:
    async with serving(Handler()) as (_, connect):
        reader, writer = await connect()
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(5):
            assert await reader.read() == b""


async def test_a_refusal_comes_behind_the_answers_that_are_owed() -> None:
    handler = Handler(holds=True)
    async with serving(handler) as (_, connect):
        reader, writer = await connect()
        writer.write(GET + b"garbage\r\n\r\n")
        await handler.arrived.wait()
        handler.release()
        answer = await reader.read()
    assert answer.startswith(OK)
    assert answer.endswith(b"Connection: close\r\n\r\nthe request line is not HTTP")


async def test_a_stop_answers_once_more_on_idle_connections() -> None:
    async with serving(Handler(), dataclasses.replace(LIMITS, farewell_seconds=5)) as (listener, connect):
        reader, writer = await connect()
        writer.write(GET)
        await reader.readexactly(len(OK))
        stopping = asyncio.create_task(listener.stop(10))
        await asyncio.sleep(0.05)
        writer.write(GET)
        assert await reader.read() == LAST_OK
        async with asyncio.timeout(4):
            await stopping


async def test_a_stop_closes_idle_connections_after_a_moment() -> None:
    async with serving(Handler(), dataclasses.replace(LIMITS, farewell_seconds=0.05)) as (listener, connect):
        reader, _ = await connect()
        async with asyncio.timeout(4):
            await listener.stop(10)
        assert await reader.read() == b""


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
