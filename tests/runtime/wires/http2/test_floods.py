"""Known attacks: each ends the connection before it costs much; honest clients that look alike are served."""

import itertools

import pytest

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.frames import frame_header, rst_stream, window_update
from charonia_runtime.wires.http2.header_blocks import encode_block
from charonia_runtime.wires.http2.limits import BUFFERED_BYTES, Limits
from charonia_runtime.wires.http2.stream import Receiver, Stream
from tests.support.http2 import (
    HEAD,
    REQUEST_BLOCK,
    START,
    TRAILERS,
    Calls,
    Server,
    data_frame,
    frames_of,
    goaway_of,
    headers_frame,
    resets_of,
)

CALM = errors.ENHANCE_YOUR_CALM
LIMITS = Limits(resets=100, resets_per_second=10, chores=500, chores_per_second=100, concurrent_streams=20)
PING = frame_header(8, 6, 0, 0) + bytes(8)
OPEN = headers_frame(1, flags=0x4)


def repeat(server: Server, frames: bytes, times: int) -> tuple[int, tuple[int, str] | None]:
    """How often the frames could be sent before the server hung up, and what it said."""
    for number in range(times):
        said = goaway_of(server.send(frames))
        if said is not None:
            return number, said
    return times, None


@pytest.mark.parametrize(
    ("frames", "least", "most"),
    [
        (PING, 0, 3),
        (frame_header(0, 4, 0, 0), 10, 100),
        (frame_header(0, 4, 1, 0), 10, 100),
        (frame_header(5, 2, 0, 9) + bytes(5), 100, 1000),
        (window_update(0, 1), 100, 1000),
        (window_update(1, 1), 100, 1000),
        (data_frame(1), 100, 1000),
        (frame_header(1, 0, 8, 1) + b"\0", 100, 1000),
        (frame_header(0, 99, 0, 0), 100, 1000),
        (frame_header(8, 6, 1, 0) + bytes(8), 100, 1000),
    ],
    ids=[
        "ping",
        "settings",
        "acks",
        "priority",
        "window",
        "stream-window",
        "empty-data",
        "padding",
        "unknown",
        "pongs",
    ],
)
def test_floods_of_frames_that_carry_nothing(frames: bytes, least: int, most: int) -> None:
    server = Server(calls := Calls(echoes=False), LIMITS)
    server.send(START + OPEN)
    times, said = repeat(server, frames, 10_000)

    assert said is not None
    assert said[0] == CALM
    assert least <= times <= most
    assert calls.calls[0].codes == [CALM]


def test_budgets_recover() -> None:
    server = Server(Calls(), LIMITS)
    server.send(START)
    for _ in range(100):
        assert repeat(server, window_update(0, 1), 50)[1] is None
        server.now += 0.5


def test_window_updates_are_paid_for_by_answers() -> None:
    """Clients give new windows for each frame that they have read, often two: a busy one sends many."""
    server = Server(Calls(), LIMITS)
    server.send(START)
    for number in range(1, 4000, 2):
        frames = headers_frame(number, flags=4) + data_frame(number, b"x", 1) + window_update(0, 1) * 3
        assert goaway_of(server.send(frames)) is None


def rapid_resets(count: int) -> bytes:
    return b"".join(
        headers_frame(number, flags=4) + rst_stream(number, errors.CANCEL) for number in range(1, 2 * count, 2)
    )


def test_rapid_resets() -> None:
    """CVE-2023-44487."""
    server = Server(calls := Calls(echoes=False), LIMITS)

    assert goaway_of(server.send(START + rapid_resets(1000))) == (CALM, "too many resets")
    assert len(calls.calls) <= 102
    assert all(call.codes == [errors.CANCEL] for call in calls.calls)


def test_a_few_resets_are_fine_and_forgotten() -> None:
    server = Server(Calls(echoes=False), LIMITS)
    server.send(START)
    for start in itertools.count(1, 100):
        if start > 5000:
            break
        frames = b"".join(headers_frame(n) + rst_stream(n, errors.CANCEL) for n in range(start, start + 100, 2))
        assert goaway_of(server.send(frames)) is None
        server.now += 6


def test_patience_is_no_rapid_reset() -> None:
    """Deadlines that pass under load, and streams of answers that somebody has seen enough of."""
    server = Server(calls := Calls(echoes=False), LIMITS)
    server.send(START)
    for start in range(1, 2000, 20):
        numbers = range(start, start + 20, 2)
        server.send(b"".join(headers_frame(number) for number in numbers))
        for call in calls.calls[-5:]:
            call.stream.send_head(HEAD)
            call.stream.send_data([b"x"])
        server.now += 1.1
        assert goaway_of(server.send(b"".join(rst_stream(number, errors.CANCEL) for number in numbers))) is None


@pytest.mark.parametrize(
    "frames",
    [
        lambda n: headers_frame(n, flags=4) + window_update(n, 0),
        lambda n: headers_frame(n, flags=4) + window_update(n, 2**31 - 1),
        lambda n: headers_frame(n, flags=4) + headers_frame(n, flags=4),
        lambda n: headers_frame(n, REQUEST_BLOCK + encode_block([(b"content-length", b"1")]), 4) + data_frame(n, b"xx"),
        lambda n: headers_frame(n, encode_block([(b"a", b"b")])),
        lambda n: headers_frame(n, REQUEST_BLOCK + encode_block([(b"a", b"b" * 20_000)])),
    ],
)
def test_resets_that_the_server_is_made_to_send(frames: object) -> None:
    """CVE-2025-8671: faults that the server answers with a reset of its own cost the client as much."""
    server = Server(calls := Calls(echoes=False), LIMITS)
    server.send(START)
    for number in range(1, 1000, 2):
        said = goaway_of(server.send(frames(number)))  # type: ignore[operator]
        if said is not None:
            break

    assert said == (CALM, "too many resets")
    assert len(calls.calls) <= 101


def test_data_for_streams_that_ended_costs_resets() -> None:
    server = Server(Calls(), LIMITS)
    server.send(START + b"".join(headers_frame(number) for number in range(1, 400, 2)))

    assert goaway_of(server.send(b"".join(data_frame(number, b"x") for number in range(1, 400, 2)))) is None
    # Answers were given, and paid for it; now there are none.
    assert goaway_of(server.send(b"".join(data_frame(n, b"x") for n in range(1, 400, 2)))) is None
    for number in range(401, 3001, 2):
        server.send(headers_frame(number, b"\x82", 4))
        if server.connection.is_closed:
            return
    pytest.fail("the connection is still open")


def test_too_many_streams_are_refused() -> None:
    server = Server(calls := Calls(echoes=False), LIMITS)
    server.send(START)
    written = server.send(b"".join(headers_frame(number, flags=4) for number in range(1, 51, 2)))

    assert resets_of(written) == [(number, errors.REFUSED_STREAM) for number in range(41, 51, 2)]
    assert len(calls.calls) == 20
    assert server.send(data_frame(49, b"was on its way")) == b""
    calls.calls[0].stream.respond(HEAD, [], TRAILERS)
    server.written()
    server.send(headers_frame(51))
    assert len(calls.calls) == 21


def test_refusals_are_free_until_the_client_knows_the_limit() -> None:
    server = Server(Calls(echoes=False), LIMITS)
    unaware = START[: -len(frame_header(0, 4, 1, 0))]
    written = server.send(unaware + b"".join(headers_frame(number, flags=4) for number in range(1, 2001, 2)))
    assert goaway_of(written) is None
    assert len(resets_of(written)) == 980

    written = server.send(frame_header(0, 4, 1, 0) + b"".join(headers_frame(n, flags=4) for n in range(2001, 3001, 2)))
    assert goaway_of(written) == (CALM, "too many resets")


def test_header_blocks_without_an_end() -> None:
    """CVE-2024-27983 and its kin: CONTINUATION frames, large or empty."""
    for piece in (b"", b"\x00\x01a\x7f" + b"v" * 1000):
        server = Server(calls := Calls(), LIMITS)
        server.send(START + headers_frame(1, REQUEST_BLOCK, flags=0))
        times, said = repeat(server, frame_header(len(piece), 9, 0, 1) + piece, 10_000)

        assert said is not None
        assert said[0] == CALM
        assert times < 100
        assert calls.calls == []


def test_blocks_in_several_frames_are_read() -> None:
    server = Server(calls := Calls(), LIMITS)
    block = REQUEST_BLOCK + encode_block([(b"x", b"y" * 30)])
    frames = [headers_frame(1, block[:1], flags=1)]
    frames += [frame_header(1, 9, 0, 1) + block[at : at + 1] for at in range(1, 40)]
    frames.append(frame_header(len(block) - 40, 9, 4, 1) + block[40:])
    server.send(START + b"".join(frames), cut=3)

    assert calls.calls[0].stream.head.fields[-1] == (b"x", b"y" * 30)
    assert calls.calls[0].is_complete


class Generous:
    """Answers every request with a megabyte."""

    answer = bytes(1 << 20)

    def begin(self, stream: Stream) -> Receiver | None:
        stream.respond(HEAD, [self.answer], TRAILERS)
        return None


def test_a_client_that_opens_no_window_holds_no_more_than_its_streams() -> None:
    """Large answers wait uncopied, and each keeps its place among the streams until the client takes it."""
    server = Server(Generous(), LIMITS)
    server.send(START)
    written = server.send(b"".join(headers_frame(number) for number in range(1, 101, 2)))

    assert len(server.connection.streams) == 20
    assert len(resets_of(written)) == 30
    assert sum(len(payload) for kind, _, _, payload in frames_of(written) if kind == 0) == 65_535
    queued = [part for stream in server.connection.streams.values() for part in stream.queue or () if len(part) > 9]
    assert {part.obj for part in queued if isinstance(part, memoryview)} == {Generous.answer}


def test_a_client_that_does_not_read_is_given_no_more_than_a_buffer() -> None:
    server = Server(Generous(), LIMITS)
    server.send(START + window_update(0, 2**31 - 65_536) + frame_header(6, 4, 0, 0) + b"\0\4\x7f\xff\xff\xff")
    server.connection.outbox.is_writable = False
    server.connection.receive(memoryview(b"".join(headers_frame(number) for number in range(1, 41, 2))), server.now)

    assert server.connection.outbox.size < 1000
    assert sum(map(len, server.connection.outbox.take())) < 1000
    server.connection.outbox.is_writable = True
    assert sum(map(len, server.connection.outbox.take())) < 2 * BUFFERED_BYTES
    assert len(server.connection.streams) > 15
    while server.written():
        pass
    assert server.connection.streams == {}


def test_a_client_that_asks_for_frames_and_does_not_read_them() -> None:
    server = Server(Calls(), Limits(chores=10**9, ping_strikes=0))
    server.send(START)
    server.connection.outbox.is_writable = False
    for _ in range(1000):
        server.connection.receive(memoryview(PING * 1000), server.now)
        if server.connection.is_closed:
            break

    assert server.connection.is_dismissed
    assert server.connection.outbox.size < 2 * BUFFERED_BYTES + 20_000


def test_stalled_answers_end_in_time() -> None:
    server = Server(Generous(), Limits(stall_seconds=60, keepalive_seconds=0))
    server.send(START + headers_frame(1))
    server.tick(1)
    server.tick(59)
    server.send(PING + window_update(0, 5) + window_update(1, 5))
    server.tick(1)
    server.tick(59)
    assert not server.connection.is_closed
    server.tick(2)
    assert server.connection.is_dismissed


def test_a_client_for_whom_too_much_waits_gets_nothing_more_done_until_it_reads() -> None:
    limits = Limits(unsent_bytes=500_000, crowded_stall_seconds=10, keepalive_seconds=0)
    server = Server(calls := Calls(echoes=False), limits)
    server.send(START)
    for stream_id in (1, 3):
        server.send(headers_frame(stream_id))
        calls.calls[-1].stream.respond(HEAD, [bytes(400_000)], TRAILERS)
        server.written()
    assert resets_of(server.send(headers_frame(5))) == [(5, errors.REFUSED_STREAM)]
    assert len(calls.calls) == 2

    server.send(window_update(0, 1_000_000) + window_update(1, 1_000_000))
    while server.written():
        pass
    assert resets_of(server.send(headers_frame(7))) == []
    assert len(calls.calls) == 3
    server.send(window_update(3, 1_000_000))
    while server.written():
        pass
    assert server.connection.outbox.queued_bytes == 0


@pytest.mark.parametrize(("answer_bytes", "seconds"), [(400_000, 600), (900_000, 10)])
def test_who_lets_too_much_wait_is_hung_up_on_sooner(answer_bytes: int, seconds: int) -> None:
    limits = Limits(unsent_bytes=500_000, crowded_stall_seconds=10, keepalive_seconds=0)
    server = Server(calls := Calls(echoes=False), limits)
    server.send(START + headers_frame(1))
    calls.calls[0].stream.respond(HEAD, [bytes(answer_bytes)], TRAILERS)
    server.written()
    server.tick(1)
    server.tick(seconds - 1)
    assert not server.connection.is_closed
    server.tick(2)
    assert server.connection.is_dismissed
    assert server.connection.outbox.queued_bytes == 0


def test_heads_of_further_answers_are_no_sign_of_a_reader() -> None:
    server = Server(calls := Calls(echoes=False), Limits(stall_seconds=60, keepalive_seconds=0))
    server.send(START + b"".join(map(headers_frame, range(1, 20, 2))))
    for call in calls.calls:
        call.stream.respond(HEAD, [bytes(100_000)], TRAILERS)
        server.written()
        server.tick(10)
    assert server.connection.is_dismissed


def test_answers_for_which_there_is_no_room_are_dropped() -> None:
    """Requests that were taken before their client stopped reading cannot make more wait than is allowed."""
    limits = Limits(unsent_bytes=500_000, unsent_bytes_at_most=800_000, keepalive_seconds=0)
    server = Server(calls := Calls(echoes=False), limits)
    server.send(START + b"".join(map(headers_frame, range(1, 200, 2))))
    written = b""
    for call in calls.calls[:50]:
        call.stream.respond(HEAD, [bytes(400_000)], TRAILERS)
        written += server.written()
    for call in calls.calls[50:]:
        call.stream.send_head(HEAD)
        call.stream.send_data([bytes(400_000)])
        written += server.written()
    assert server.connection.outbox.queued_bytes < 1_300_000
    assert resets_of(written) == [(stream_id, errors.ENHANCE_YOUR_CALM) for stream_id in range(7, 200, 2)]
    assert [call.codes for call in calls.calls[50:]] == [[errors.ENHANCE_YOUR_CALM]] * 50
    assert len(server.connection.streams) == 3


def test_held_streams_get_no_new_window() -> None:
    limits = Limits(stream_window_bytes=1000, connection_window_bytes=100_000)
    server = Server(calls := Calls(echoes=False), limits)
    server.send(START + OPEN)
    (call,) = calls.calls
    call.stream.hold()
    assert server.send(data_frame(1, bytes(900))) == b""
    call.stream.release()
    assert list(frames_of(server.written())) == [(8, 0, 1, (900).to_bytes(4, "big"))]
    assert list(frames_of(server.send(data_frame(1, bytes(500))))) == [(8, 0, 1, (500).to_bytes(4, "big"))]
    call.stream.hold()
    assert resets_of(server.send(data_frame(1, bytes(1001)))) == [(1, errors.FLOW_CONTROL_ERROR)]
    call.stream.release()
    assert server.written() == b""


def test_when_ready_waits_for_windows_and_for_the_socket() -> None:
    server = Server(calls := Calls(echoes=False))
    server.send(START + headers_frame(1))
    stream = calls.calls[0].stream
    ready: list[str] = []
    stream.send_head(HEAD)
    stream.when_ready(lambda: ready.append("at once"))
    assert ready == ["at once"]

    stream.send_data([bytes(65_536)])
    stream.when_ready(lambda: ready.append("window"))
    server.written()
    assert ready == ["at once"]
    server.send(window_update(0, 1) + window_update(1, 1))
    assert ready[1:] == ["window"]

    server.connection.outbox.is_writable = False
    stream.when_ready(lambda: ready.append("socket"))
    stream.when_ready(lambda: ready.append("again"))
    server.written()
    assert ready[2:] == []
    server.connection.outbox.is_writable = True
    server.written()
    assert ready[2:] == ["socket", "again"]

    stream.send_data([b"more than the window"])
    stream.when_ready(lambda: ready.append("reset"))
    server.send(rst_stream(1, errors.CANCEL))
    assert ready[4:] == ["reset"]
    stream.when_ready(lambda: ready.append("gone"))
    assert ready[5:] == ["gone"]
