"""A listener's life on real sockets: serve, also over TLS, hang up, drain, stop in time."""

import asyncio
import dataclasses
import ssl
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.frames import PREFACE, frame_header, settings, window_update
from charonia_runtime.wires.http2.limits import LARGEST_WINDOW, Limits
from charonia_runtime.wires.http2.stream import Receiver, Stream
from tests.support.certificates import make_certificate
from tests.support.http2 import HEAD, START, TRAILERS, Calls, data_frame, goaway_of, headers_frame
from tests.support.http2_listener import CALL, LAST_FRAME, serving

WIDE = PREFACE + settings([(4, LARGEST_WINDOW)]) + window_update(0, LARGEST_WINDOW - 65_535) + frame_header(0, 4, 1, 0)
DRAIN_PONG = frame_header(8, 6, 1, 0) + b"charonia"


class Waiting(Calls):
    """Says when a call has come, and leaves the answer to the test."""

    def __init__(self) -> None:
        super().__init__(echoes=False)
        self.arrived = asyncio.Event()

    def begin(self, stream: Stream) -> Receiver | None:
        self.arrived.set()
        return super().begin(stream)


async def test_requests_are_answered() -> None:
    async with serving(Calls()) as (_, connect):
        reader, writer = await connect()
        writer.write(START + CALL)
        answer = await reader.readuntil(LAST_FRAME)

    assert answer.endswith(headers_frame(1, HEAD, 4) + data_frame(1, b"hello") + LAST_FRAME)


async def test_connections_share_a_buffer_and_keep_what_is_theirs() -> None:
    async with serving(Calls()) as (_, connect):
        ends = [await connect() for _ in range(3)]
        for at in range(0, len(START + CALL), 7):
            for _, writer in ends:
                writer.write((START + CALL)[at : at + 7])
                await asyncio.sleep(0)
        for reader, _ in ends:
            assert (await reader.readuntil(LAST_FRAME)).endswith(data_frame(1, b"hello") + LAST_FRAME)


async def test_the_loop_is_never_blocked() -> None:
    with blockbuster_ctx():
        async with serving(Calls()) as (_, connect):
            reader, writer = await connect()
            writer.write(START + CALL)
            await reader.readuntil(LAST_FRAME)


async def test_answers_are_written_when_they_come() -> None:
    async with serving(handler := Waiting()) as (_, connect):
        reader, writer = await connect()
        writer.write(START + CALL)
        await handler.arrived.wait()
        stream = handler.calls[0].stream
        stream.send_head(HEAD)
        await reader.readuntil(headers_frame(1, HEAD, 4))
        stream.send_data([b"part"])
        await reader.readuntil(data_frame(1, b"part"))
        stream.send_trailers(TRAILERS)
        await reader.readuntil(LAST_FRAME)


async def test_slow_readers_hold_back_only_themselves() -> None:
    """A large answer waits for its reader; when_ready tells when it has gone. Another client is served meanwhile."""
    body = bytes(64 << 20)
    async with serving(handler := Waiting()) as (listener, connect):
        slow_reader, slow_writer = await connect(limit=1 << 16)
        slow_writer.write(WIDE + CALL)
        await handler.arrived.wait()
        (connection,) = listener.connections
        stream = handler.calls[0].stream
        gone = asyncio.Event()
        stream.send_head(HEAD)
        stream.send_data([body])
        stream.when_ready(gone.set)
        handler.arrived.clear()

        reader, writer = await connect()
        writer.write(START + CALL)
        await handler.arrived.wait()
        handler.calls[1].stream.respond(HEAD, [b"quick"], TRAILERS)
        await reader.readuntil(LAST_FRAME)
        assert not gone.is_set()
        assert not connection.connection.outbox.is_writable

        stream.send_trailers(TRAILERS)
        received = 0
        while piece := await slow_reader.read(1 << 20):
            received += len(piece)
            if piece.endswith(LAST_FRAME):
                break
        assert received > len(body)
        assert gone.is_set()


async def test_faults_are_told_and_the_connection_is_closed() -> None:
    async with serving(Calls()) as (listener, connect):
        reader, writer = await connect()
        writer.write(START + data_frame(0))
        answer = await reader.read()
        writer.write(b"more")

        assert goaway_of(answer) == (errors.PROTOCOL_ERROR, "DATA for a stream that was never opened")
        writer.close()
        await asyncio.wait_for(next(iter(listener.connections)).lost, 5) if listener.connections else None


async def test_clients_that_do_not_introduce_themselves_are_hung_up_on() -> None:
    async with serving(Calls(), Limits(handshake_seconds=10)) as (listener, connect):
        reader, _ = await connect()
        await reader.readexactly(9)  # our SETTINGS
        listener.tick(asyncio.get_running_loop().time() + 11)
        assert (await reader.read()).endswith(b"no SETTINGS in time")


async def test_the_sweep_sees_what_is_due() -> None:
    limits = Limits(handshake_seconds=0.05)
    async with serving(Calls(), limits) as (_, connect):
        reader, _ = await connect()
        assert goaway_of(await reader.read()) == (errors.SETTINGS_TIMEOUT, "no SETTINGS in time")


async def test_a_client_that_vanishes_is_forgotten() -> None:
    async with serving(handler := Waiting()) as (listener, connect):
        _, writer = await connect()
        writer.write(START + CALL)
        await handler.arrived.wait()
        (connection,) = listener.connections
        writer.transport.abort()
        await asyncio.wait_for(connection.lost, 5)

        assert listener.connections == set()
        assert len(handler.calls[0].codes) == 1
        handler.calls[0].stream.respond(HEAD, [b"late"], TRAILERS)


async def test_a_stop_finishes_answers() -> None:
    async with serving(handler := Waiting()) as (listener, connect):
        unused, _ = await connect()
        busy, writer = await connect()
        writer.write(START + CALL)
        await handler.arrived.wait()
        stopping = asyncio.create_task(listener.stop(5))
        assert await unused.read() is not None
        await busy.readuntil(b"charonia")
        writer.write(DRAIN_PONG)
        handler.calls[0].stream.respond(HEAD, [b"ok"], TRAILERS)
        assert (await busy.read()).find(LAST_FRAME) > 0
        await stopping
        with pytest.raises(OSError):  # noqa: PT011 - whatever the system says
            await connect()


async def test_a_stop_gives_up_in_time() -> None:
    async with serving(handler := Waiting()) as (listener, connect):
        _, writer = await connect()
        writer.write(START + CALL)
        await handler.arrived.wait()
        await listener.stop(0.01)
        await asyncio.sleep(0)

        assert len(handler.calls[0].codes) == 1


async def test_draining_sends_clients_away_and_takes_new_ones() -> None:
    async with serving(Calls()) as (listener, connect):
        reader, writer = await connect()
        writer.write(START + CALL)
        await reader.readuntil(LAST_FRAME)
        listener.drain()
        assert goaway_of(await reader.readuntil(b"charonia")) == (errors.NO_ERROR, "")
        writer.write(DRAIN_PONG)
        assert goaway_of(await reader.read()) == (errors.NO_ERROR, "")

        reader, writer = await connect()
        writer.write(START + CALL)
        await reader.readuntil(LAST_FRAME)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    made = make_certificate(tmp_path_factory.mktemp("certificates"), "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    return context, made.certificate


def client_context(authority: Path, protocols: list[str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


async def test_tls(contexts: tuple[ssl.SSLContext, Path]) -> None:
    server_context, authority = contexts
    body = bytes(300_000)
    async with serving(handler := Waiting(), context=server_context) as (listener, connect):
        reader, writer = await connect(
            ssl=client_context(authority, ["h2", "http/1.1"]), server_hostname="localhost", limit=1 << 20
        )
        writer.write(WIDE + CALL)
        await handler.arrived.wait()
        handler.calls[0].stream.respond(HEAD, [memoryview(body)], TRAILERS)
        assert len(await reader.readuntil(LAST_FRAME)) > len(body)
        writer.write(data_frame(0))
        assert goaway_of(await reader.read()) is not None
        assert len(listener.connections) <= 1


@pytest.mark.parametrize("protocols", [[], ["http/1.1"]])
async def test_tls_without_an_agreement_on_http2(contexts: tuple[ssl.SSLContext, Path], protocols: list[str]) -> None:
    server_context, authority = contexts
    async with serving(Calls(), context=server_context) as (listener, connect):
        with pytest.raises(OSError):  # noqa: PT011, PT012 - whichever end notices first
            reader, writer = await connect(ssl=client_context(authority, protocols), server_hostname="localhost")
            writer.write(START)
            if await reader.read() == b"":
                raise ConnectionError
        assert listener.connections == set()


async def test_whole_and_partial_frames_of_large_bodies() -> None:
    limits = dataclasses.replace(Limits(), stream_window_bytes=1 << 20)
    async with serving(Calls(), limits) as (_, connect):
        reader, writer = await connect(limit=1 << 22)
        body = bytes(range(256)) * 4000
        writer.write(WIDE + headers_frame(1, flags=4) + data_frame(1, body, 1))
        answer = await reader.readuntil(LAST_FRAME)

    assert len(answer) > len(body)
