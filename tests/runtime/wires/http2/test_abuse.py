"""Attacks on a listener while honest clients work: they lose nothing, and each attacker is hung up on."""

import asyncio

import hpack
import pytest

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.frames import frame_header, rst_stream, window_update
from charonia_runtime.wires.http2.limits import Limits
from tests.support.http2 import REQUEST_BLOCK, START, TRAILERS, Calls, data_frame, goaway_of, headers_frame
from tests.support.http2_listener import Open, serving

LIMITS = Limits(resets=100, chores=1000, chores_per_second=1000, concurrent_streams=50)
HONEST_CLIENTS = 16
CALLS = 40
BOMB = headers_frame(1, hpack.Encoder().encode([(b"x", b"y" * 4000)], huffman=False))
ATTACKS = {
    "rapid resets": [headers_frame(number) + rst_stream(number, errors.CANCEL) for number in range(1, 20_001, 2)],
    "resets by the server": [headers_frame(n, flags=4) + window_update(n, 0) for n in range(1, 20_001, 2)],
    "continuation": [headers_frame(1, flags=0)] + [frame_header(100, 9, 0, 1) + b"\0\1a\x60" + bytes(96)] * 10_000,
    "bomb": [BOMB + headers_frame(3, b"\xbe" * 16_000)],
    "settings": [frame_header(6, 4, 0, 0) + b"\0\4\0\0\0\1"] * 10_000,
    "pings": [frame_header(8, 6, 0, 0) + bytes(8)] * 10_000,
    "empty data": [headers_frame(1, flags=4)] + [data_frame(1)] * 20_000,
    "windows": [window_update(0, 1)] * 20_000,
    "priorities": [frame_header(5, 2, 0, 99) + bytes(5)] * 20_000,
    "garbage": [bytes(range(256))] * 100,
}


class Unhurried(Calls):
    """Answers in the loop's next turn, so that attacks find streams open."""

    def __init__(self) -> None:
        super().__init__(echoes=False)

    def begin(self, stream):  # type: ignore[no-untyped-def]
        asyncio.get_running_loop().call_soon(stream.respond, b"\x88", [b"ok"], TRAILERS)
        return super().begin(stream)


async def work(connect: Open) -> int:
    """Make calls one after the other; how many were answered."""
    reader, writer = await connect()
    writer.write(START)
    for number in range(1, 2 * CALLS, 2):
        writer.write(headers_frame(number, REQUEST_BLOCK, 4) + data_frame(number, b"hello", 1))
        await reader.readuntil(frame_header(len(TRAILERS), 1, 5, number) + TRAILERS)
    return CALLS


async def attack(connect: Open, frames: list[bytes]) -> bytes:
    """Send until the server hangs up; what it said."""
    reader, writer = await connect(limit=1 << 24)
    writer.write(START)
    said = asyncio.ensure_future(reader.read())
    for frame in frames:
        if said.done() or writer.is_closing():
            break
        writer.write(frame)
        try:
            await writer.drain()
        except ConnectionError:
            break
    try:
        return await said
    except ConnectionError:
        return b""


@pytest.mark.parametrize("name", ATTACKS)
async def test_honest_clients_lose_nothing(name: str) -> None:
    async with serving(Unhurried(), LIMITS) as (listener, connect):
        attackers = [asyncio.ensure_future(attack(connect, ATTACKS[name])) for _ in range(2)]
        async with asyncio.timeout(60):
            answered = await asyncio.gather(*(work(connect) for _ in range(HONEST_CLIENTS)))
            said = await asyncio.gather(*attackers)

        assert answered == [CALLS] * HONEST_CLIENTS
        assert all(goaway_of(answer) is not None for answer in said)
        hung_up = [connection for connection in listener.connections if connection.connection.is_dismissed]
        assert all(connection.connection.streams == {} for connection in hung_up)
