"""Keep-alive, ages, drains and time-outs; the time is an argument."""

import dataclasses
import math

import pytest

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.frames import PREFACE, frame_header, rst_stream, window_update
from charonia_runtime.wires.http2.limits import Limits
from tests.support.http2 import (
    HEAD,
    START,
    TRAILERS,
    Calls,
    Server,
    data_frame,
    frames_of,
    goaway_of,
    headers_frame,
    resets_of,
)  # fmt: skip

PING = frame_header(8, 6, 0, 0) + b"12345678"
LIMITS = Limits(keepalive_seconds=60, keepalive_timeout_seconds=20, ping_interval_seconds=300, handshake_seconds=10)
OPEN = headers_frame(1, flags=4)


def kinds(written: bytes) -> list[int]:
    return [kind for kind, *_ in frames_of(written)]


def test_pings_are_answered() -> None:
    server = Server(Calls())

    assert list(frames_of(server.send(START + PING)))[-1] == (6, 1, 0, b"12345678")


def test_silent_clients_with_calls_are_pinged() -> None:
    server = Server(Calls(echoes=False), LIMITS)
    server.send(START + OPEN)
    assert server.tick(59) == b""
    assert kinds(server.tick(1)) == [6]
    assert server.tick(20) == b""
    server.send(frame_header(8, 6, 1, 0) + bytes(8))
    assert server.tick(1) == b""
    assert not server.connection.is_closed


def test_a_ping_that_nothing_answers_ends_the_connection() -> None:
    server = Server(calls := Calls(echoes=False), LIMITS)
    server.send(START + OPEN)
    server.tick(60)
    assert goaway_of(server.tick(21)) == (errors.NO_ERROR, "keepalive_timeout")
    assert server.connection.is_dismissed
    assert len(calls.calls[0].codes) == 1


@pytest.mark.parametrize(("permitted", "expected"), [(False, []), (True, [6])])
def test_idle_clients_are_pinged_where_that_is_wanted(permitted: bool, expected: list[int]) -> None:
    server = Server(Calls(), dataclasses.replace(LIMITS, keepalive_without_calls=permitted))
    server.send(START)

    assert kinds(server.tick(61)) == expected


@pytest.mark.parametrize(("limit", "expected"), [(2, 2), (0, 5)])
def test_pings_without_answers_in_between_are_limited(limit: int, expected: int) -> None:
    server = Server(calls := Calls(echoes=False), dataclasses.replace(LIMITS, pings_without_data=limit))
    server.send(START + OPEN)
    pings = 0
    for _ in range(5):
        pings += len(server.tick(61)) > 0
        server.send(frame_header(8, 6, 1, 0) + bytes(8))
        server.tick(1)
    assert pings == expected

    calls.calls[0].stream.send_data([b"x"])
    server.written()
    assert kinds(server.tick(61)) == [6]


@pytest.mark.parametrize(
    ("changes", "pings", "gap", "dismissed"),
    [
        ({}, 3, 1, False),
        ({}, 4, 1, True),
        ({}, 10, 300, False),
        ({"ping_strikes": 5}, 6, 1, False),
        ({"ping_strikes": 5}, 7, 1, True),
        ({"ping_strikes": 0}, 100, 1, False),
    ],
)  # fmt: skip
def test_clients_that_ping_too_often(changes: dict[str, int], pings: int, gap: float, dismissed: bool) -> None:
    """As gRPC has it: the first ping is free, each one too early is a strike, and one strike too many is the end."""
    server = Server(Calls(echoes=False), dataclasses.replace(LIMITS, keepalive_seconds=0, stall_seconds=0, **changes))
    server.send(START + OPEN)
    said = None
    for _ in range(pings):
        said = said or goaway_of(server.send(PING))
        server.now += gap

    assert said == ((errors.ENHANCE_YOUR_CALM, "too_many_pings") if dismissed else None)


def test_idle_clients_may_ping_every_two_hours() -> None:
    server = Server(Calls(), LIMITS)
    server.send(START)
    for _ in range(3):
        assert goaway_of(server.send(PING)) is None
        server.now += 7199
    assert goaway_of(server.send(PING)) is not None


def test_answers_make_pings_reasonable() -> None:
    """Clients measure the bandwidth with pings while they receive."""
    server = Server(Calls(), LIMITS)
    server.send(START)
    for number in range(1, 201, 2):
        assert goaway_of(server.send(headers_frame(number) + PING)) is None


@pytest.mark.parametrize("said", [b"", PREFACE[:10], PREFACE, PREFACE + frame_header(0, 4, 0, 0)])
def test_clients_that_do_not_introduce_themselves(said: bytes) -> None:
    server = Server(Calls(), LIMITS)
    server.send(said)
    server.tick(9)
    assert not server.connection.is_closed
    assert goaway_of(server.tick(2)) == (errors.SETTINGS_TIMEOUT, "no SETTINGS in time")


@pytest.mark.parametrize("said", [b"\0", headers_frame(1)[:20], headers_frame(1, flags=0)])
def test_frames_that_stop_in_the_middle(said: bytes) -> None:
    server = Server(Calls(), LIMITS)
    server.send(START + said)
    server.tick(9)
    server.send(b"")
    server.tick(0.5)
    assert not server.connection.is_closed
    server.tick(1)
    assert server.connection.is_dismissed


def test_bodies_may_take_their_time() -> None:
    server = Server(calls := Calls(), dataclasses.replace(LIMITS, keepalive_seconds=0))
    server.send(START + OPEN + data_frame(1, bytes(100), 1)[:50])
    server.tick(1000)
    server.send(bytes(59))

    assert calls.calls[0].is_complete


DRAIN_PONG = frame_header(8, 6, 1, 0) + b"charonia"


def test_a_drain_takes_two_steps_and_loses_nothing() -> None:
    server = Server(calls := Calls(echoes=False))
    server.send(START + headers_frame(1))
    server.connection.drain(server.now)
    server.connection.drain(server.now)
    assert list(frames_of(server.written())) == [(7, 0, 0, b"\x7f\xff\xff\xff\0\0\0\0"), (6, 0, 0, b"charonia")]
    written = server.send(headers_frame(3) + DRAIN_PONG)  # 3 was on its way
    assert list(frames_of(written)) == [(7, 0, 0, bytes(3) + b"\3" + bytes(4))]
    assert not server.connection.is_closed

    assert resets_of(server.send(headers_frame(5, flags=4))) == [(5, errors.REFUSED_STREAM)]
    assert server.send(data_frame(5, b"x")) == b""
    assert len(calls.calls) == 2
    calls.calls[0].stream.respond(HEAD, [b"ok"], TRAILERS)
    assert not server.connection.is_closed
    calls.calls[1].stream.respond(HEAD, [b"ok"], TRAILERS)
    assert server.connection.is_closed
    assert not server.connection.is_dismissed
    assert kinds(server.written()) == [1, 0, 1, 1, 0, 1]


def test_a_drain_does_not_wait_for_silent_clients() -> None:
    server = Server(Calls())
    server.send(START)
    server.connection.drain(server.now)
    server.tick(2)
    assert not server.connection.is_closed
    assert goaway_of(server.tick(0.1)) == (errors.NO_ERROR, "")
    assert server.connection.is_closed


def test_a_drain_ends_when_its_last_stream_is_reset() -> None:
    server = Server(Calls(echoes=False))
    server.send(START + headers_frame(1))
    server.connection.drain(server.now)
    server.send(DRAIN_PONG)
    assert not server.connection.is_closed
    server.send(rst_stream(1, errors.CANCEL))
    assert server.connection.is_closed


def test_old_connections_are_drained_and_then_closed() -> None:
    limits = dataclasses.replace(LIMITS, connection_age_seconds=100, connection_age_grace_seconds=30)
    server = Server(calls := Calls(echoes=False), dataclasses.replace(limits, keepalive_seconds=0))
    server.send(START + OPEN)
    assert server.tick(89) == b""
    assert kinds(server.tick(22)) == [7, 6]
    server.send(frame_header(8, 6, 1, 0) + b"charonia")
    server.tick(29)
    assert not server.connection.is_closed
    assert goaway_of(server.tick(2)) == (errors.NO_ERROR, "max_age")
    assert len(calls.calls[0].codes) == 1


def test_ages_differ() -> None:
    limits = dataclasses.replace(LIMITS, connection_age_seconds=100, connection_age_grace_seconds=math.inf)
    servers = [Server(Calls(), limits) for _ in range(64)]
    for server in servers:
        server.send(START)

    assert 0 < sum(kinds(server.tick(100)) == [7, 6] for server in servers) < 64


def test_ticks_on_closed_connections_do_nothing() -> None:
    server = Server(Calls(), LIMITS)
    server.send(b"no HTTP/2")
    assert server.tick(10_000) == b""
    server.connection.drain(server.now)
    server.connection.drained()
    server.connection.dismiss(errors.NO_ERROR, "again")
    assert server.written() == b""


def test_the_connection_s_window_is_announced_and_renewed() -> None:
    server = Server(Calls(echoes=False), Limits(connection_window_bytes=100_000))
    frames = list(frames_of(server.written()))
    assert frames[0][0] == 4
    assert frames[1] == (8, 0, 0, (100_000 - 65_535).to_bytes(4, "big"))
    written = server.send(START + OPEN + data_frame(1, bytes(30_000)) * 2)
    assert list(frames_of(written))[-1] == (8, 0, 0, (60_000).to_bytes(4, "big"))
    assert server.send(window_update(0, 1)) == b""


def test_requests_that_pause_are_told() -> None:
    server = Server(calls := Calls(echoes=False), dataclasses.replace(LIMITS, pause_seconds=30))
    server.send(START + OPEN)
    (call,) = calls.calls
    for piece in range(3):
        server.send(data_frame(1, b"x" * (piece + 1)))
        server.tick(1)
        server.tick(29)
    assert not call.pauses
    server.tick(2)
    assert call.pauses == 1
    server.send(data_frame(1, b"", 1))
    server.tick(40)
    assert call.pauses == 1


def test_idle_connections_are_asked_to_go() -> None:
    server = Server(Calls(echoes=False), Limits(idle_seconds=100, keepalive_seconds=0))
    server.send(START + OPEN)
    for _ in range(10):
        assert goaway_of(server.tick(50)) is None
    server.send(rst_stream(1, errors.CANCEL))
    server.tick(1)
    assert goaway_of(server.tick(100)) is None
    assert goaway_of(server.tick(1)) == (errors.NO_ERROR, "")
    server.send(DRAIN_PONG)
    assert server.connection.is_closed
