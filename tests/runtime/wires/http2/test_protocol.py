"""What a connection does with its transport, which is a fake that takes everything."""

import asyncio
from typing import Any

from charonia_runtime.wires.http2.frames import frame_header, settings, window_update
from charonia_runtime.wires.http2.limits import LARGEST_WINDOW, Limits
from charonia_runtime.wires.http2.protocol import ConnectionProtocol
from tests.support.http2 import HEAD, START, TRAILERS, Calls, headers_frame

WIDE = settings([(4, LARGEST_WINDOW)]) + window_update(0, LARGEST_WINDOW - 65_535)
PING = frame_header(8, 6, 0, 0) + bytes(8)


class Transport:
    """Counts what is written, and tells how it was closed."""

    def __init__(self) -> None:
        self.writes: list[int] = []
        self.endings: list[str] = []

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        assert self.endings == []
        self.writes.append(len(data))

    def writelines(self, parts: list[Any]) -> None:
        assert self.endings == []
        self.writes.append(sum(map(len, parts)))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.endings.append("eof")

    def close(self) -> None:
        self.endings.append("close")

    def abort(self) -> None:
        self.endings.append("abort")


def connected(calls: Calls) -> tuple[ConnectionProtocol, Transport]:
    protocol = ConnectionProtocol(calls, Limits(), memoryview(bytearray(1 << 18)), set())
    transport = Transport()
    protocol.connection_made(transport)  # type: ignore[arg-type]
    return protocol, transport


def receive(protocol: ConnectionProtocol, data: bytes) -> None:
    buffer = protocol.get_buffer(-1)
    buffer[: len(data)] = data
    protocol.buffer_updated(len(data))


async def test_what_a_read_causes_is_one_write() -> None:
    protocol, transport = connected(Calls())
    receive(protocol, START + b"".join(headers_frame(number) for number in range(1, 101, 2)) + PING)

    assert len(transport.writes) == 2  # the first is our SETTINGS


async def test_what_a_turn_of_the_loop_causes_is_one_write() -> None:
    protocol, transport = connected(calls := Calls(echoes=False))
    receive(protocol, START + b"".join(headers_frame(number) for number in range(1, 101, 2)))
    before = len(transport.writes)
    for call in calls.calls:
        call.stream.respond(HEAD, [b"x"], TRAILERS)
    assert len(transport.writes) == before
    await asyncio.sleep(0)

    assert len(transport.writes) == before + 1


async def test_a_fast_reader_lets_others_have_their_turn() -> None:
    protocol, transport = connected(calls := Calls(echoes=False))
    receive(protocol, START + WIDE + headers_frame(1))
    size = 64 << 20
    calls.calls[0].stream.respond(HEAD, [bytes(size)], TRAILERS)
    turns = 0
    while sum(transport.writes) < size:
        before = sum(transport.writes)
        await asyncio.sleep(0)
        assert 0 < sum(transport.writes) - before < 6 << 20
        turns += 1

    assert turns > 8


async def test_drained_connections_are_closed_and_not_waited_for_forever() -> None:
    protocol, transport = connected(Calls())
    receive(protocol, START)
    protocol.drain()
    await asyncio.sleep(0)
    receive(protocol, frame_header(8, 6, 1, 0) + b"charonia")
    assert transport.endings == ["close"]
    (timer,) = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert timer._callback == transport.abort

    receive(protocol, PING)
    protocol.tick(0)
    protocol.connection_lost(None)
    assert timer.cancelled()
    assert transport.endings == ["close"]


async def test_dismissed_clients_can_read_why() -> None:
    protocol, transport = connected(Calls())
    receive(protocol, START + headers_frame(2))
    receive(protocol, PING)
    assert transport.endings == ["eof"]
    protocol.connection_lost(None)


async def test_a_full_socket_gets_nothing_until_it_has_room() -> None:
    protocol, transport = connected(Calls())
    protocol.pause_writing()
    before = list(transport.writes)
    receive(protocol, START + headers_frame(1) + PING)
    await asyncio.sleep(0)
    assert transport.writes == before
    protocol.resume_writing()
    assert len(transport.writes) == len(before) + 1
