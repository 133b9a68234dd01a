"""Hostile clients over real sockets: sixteen honest ones lose nothing, and the server's memory stays bounded."""

import asyncio
import contextlib
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache

import numpy as np
import psutil
import pytest
import pytest_asyncio

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.frontends.v2_grpc import Frontend, Options
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX
from charonia_runtime.wires.http2.frames import PREFACE, frame_header, settings
from charonia_runtime.wires.http2.header_blocks import encode_block
from tests.support.fake_server import FakeServer, answer, echo_config
from tests.support.grpc_calls import SERVICE, GrpcClient, message
from tests.support.http2 import START, data_frame, headers_frame
from tests.support.streams import request

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

HONEST = 16
CALLS = 10
"""What each honest client asks at least, however short the attack is."""
MEMORY_BYTES = 200 << 20
"""What the process may grow by meanwhile, clients included."""
FIELDS = {
    ":method": "POST", ":scheme": "http", ":path": f"{SERVICE}/ModelInfer", "content-type": "application/grpc",
    "te": "trailers",
}  # fmt: skip


def block(**fields: str) -> bytes:
    fields = {name.replace("_", "-"): value for name, value in fields.items()}
    return encode_block((name.encode(), value.encode()) for name, value in {**FIELDS, **fields}.items())


def infer(number: int, data: bytes, flag: int = 0, **fields: str) -> bytes:
    body = PREFIX.pack(flag, len(data)) + data
    frames = [data_frame(number, body[at : at + 16_384]) for at in range(0, len(body), 16_384)]
    return headers_frame(number, block(**fields), 0x4) + b"".join(frames) + data_frame(number, b"", 0x1)


def streams(count: int) -> range:
    return range(1, 2 * count, 2)


def rapid_resets() -> Iterator[bytes]:
    yield START
    for number in streams(5000):
        yield headers_frame(number, block(), 0x4) + frame_header(4, 3, 0, number) + struct.pack(">I", 8)


def continuations() -> Iterator[bytes]:
    yield START + headers_frame(1, block(), 0)
    for _ in range(100_000):
        yield frame_header(100, 9, 0, 1) + b"\x40\x01a\x01b" * 20


def header_bombs() -> Iterator[bytes]:
    """A large field in the dynamic table, and blocks that say it thousands of times."""
    yield START + headers_frame(1, b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + block(), 0x5)
    for number in streams(2000)[1:]:
        yield headers_frame(number, b"\xbe" * 10_000, 0x5)


def chores() -> Iterator[bytes]:
    yield START
    for _ in range(20_000):
        yield settings(((4, 65535),)) + frame_header(8, 6, 0, 0) + bytes(8) + frame_header(0, 0, 0, 1)


def announced_giants() -> Iterator[bytes]:
    yield START
    for number in streams(2000):
        yield headers_frame(number, block(), 0x4) + data_frame(number, PREFIX.pack(0, 2**31 - 1) + b"a")


def bombs() -> Iterator[bytes]:
    """Each would become a gigabyte."""
    yield START
    for number in streams(10):
        yield infer(number, gigabyte(), 1, grpc_encoding="gzip")


@cache
def gigabyte() -> bytes:
    """Compressed."""
    deflater = zlib.compressobj(9, wbits=31)
    zeros = deflater.compress(bytes(64 << 20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return zeros + zeros[10:] * 15


def refused_calls() -> Iterator[bytes]:
    yield START
    for number in streams(3000):
        yield headers_frame(number, block(**{":path": f"/no.Service/Call{number}"}), 0x5)


def unread_answers() -> Iterator[bytes]:
    """
    Requests for a megabyte each, from a client whose window stays shut: as many answers wait as it may have calls.

    They go with the connection.
    """
    yield PREFACE + settings(((4, 0),)) + frame_header(0, 4, 1, 0)
    for number in streams(40):
        yield infer(number, message({"model_name": "megabyte"}))


ATTACKS: list[Callable[[], Iterator[bytes]]] = [
    rapid_resets, continuations, header_bombs, chores, announced_giants, bombs, refused_calls, unread_answers,
]  # fmt: skip


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


@pytest.mark.parametrize("sent", ATTACKS, ids=lambda sent: sent.__name__)
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
