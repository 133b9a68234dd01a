"""Answers through windows of any size: nothing is lost, nothing is more than the client takes."""

import h2.events
import h2.exceptions
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.wires.http2.frames import window_update
from charonia_runtime.wires.http2.limits import Limits
from tests.support.http2 import HEAD, START, TRAILERS, Calls, Client, Server, data_frame, frames_of, headers_frame

PARTS = st.lists(st.integers(0, 50_000), max_size=4)
GRANTS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60_000)), max_size=12)


def body_of(stream: int, sizes: list[int]) -> list[bytes]:
    """Parts that show where each byte belongs."""
    return [bytes((stream * 50 + number) % 256 for _ in range(size)) for number, size in enumerate(sizes)]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(PARTS, st.booleans()), min_size=1, max_size=4), GRANTS, st.sampled_from((1, 1000, 65_535)))
def test_windows_are_kept_and_everything_arrives(
    answers: list[tuple[list[int], bool]], grants: list[tuple[int, int]], window: int
) -> None:
    """The client gives windows for the connection (0) or a stream in any order; `h2` raises when one is overrun."""
    client = Client(calls := Calls(echoes=False))
    client.acknowledges = False
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
    client.exchange()
    streams = [client.request() for _ in answers]
    for call, stream, (sizes, at_once) in zip(calls.calls, streams, answers, strict=True):
        parts = body_of(stream, sizes)
        if at_once:
            call.stream.respond(HEAD, parts, TRAILERS)
        else:
            call.stream.send_head(HEAD)
            for part in parts:
                call.stream.send_data([part])
            call.stream.send_trailers(TRAILERS)
    client.exchange()
    for which, size in grants:
        stream = [None, *streams][which % (len(streams) + 1)]
        try:
            client.h2.increment_flow_control_window(size, stream)
        except h2.exceptions.StreamClosedError:
            continue
        client.exchange()
    client.h2.increment_flow_control_window(1 << 20)
    client.exchange()
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    client.exchange()

    for stream, (sizes, _) in zip(streams, answers, strict=True):
        _, body, trailers = client.answer(stream)
        assert body == b"".join(body_of(stream, sizes))
        assert trailers == {"grpc-status": "0"}
    assert client.server.connection.streams == {}


def test_a_closed_window_holds_back_no_answer_without_a_body() -> None:
    client = Client(calls := Calls(echoes=False))
    client.acknowledges = False
    large, small = client.request(), client.request()
    calls.calls[0].stream.respond(HEAD, [bytes(1 << 20)], TRAILERS)
    client.exchange()
    calls.calls[1].stream.respond(HEAD, [b""], TRAILERS)
    client.exchange()

    assert [event.stream_id for event in client.saw(h2.events.StreamEnded)] == [small]
    assert len(client.answer(large)[1]) == 65_535


def test_a_stream_s_own_window_holds_back_only_itself() -> None:
    server = Server(calls := Calls(echoes=False))
    server.send(START + window_update(0, 1 << 20) + headers_frame(1) + headers_frame(3))
    calls.calls[0].stream.respond(HEAD, [bytes(70_000)], TRAILERS)
    calls.calls[1].stream.respond(HEAD, [bytes(20_000)], TRAILERS)
    written = list(frames_of(server.written()))

    assert sum(len(payload) for kind, _, stream, payload in written if (kind, stream) == (0, 1)) == 65_535
    assert (1, 5, 3, TRAILERS) in written
    assert list(server.connection.streams) == [1]
    assert server.send(window_update(1, 5000))[-len(TRAILERS) :] == TRAILERS


def test_parts_are_not_copied() -> None:
    server = Server(calls := Calls(echoes=False))
    server.send(
        START + window_update(0, 1 << 20) + window_update(0, 1 << 20) + headers_frame(1) + window_update(1, 1 << 20)
    )
    body = bytearray(1 << 19)
    calls.calls[0].stream.respond(HEAD, [memoryview(body)], TRAILERS)

    views = [part for part in server.connection.outbox.take() if isinstance(part, memoryview)]
    assert sum(map(len, views)) == len(body)
    assert all(view.obj is body for view in views)


def test_nothing_is_no_data() -> None:
    server = Server(calls := Calls(echoes=False))
    server.send(START + headers_frame(1))
    stream = calls.calls[0].stream
    stream.send_head(HEAD)
    stream.send_data([])
    stream.send_data([b"", b""])
    stream.send_trailers(TRAILERS)

    assert [kind for kind, *_ in frames_of(server.written())] == [1, 1]


def test_frames_are_as_large_as_the_client_takes() -> None:
    server = Server(calls := Calls(echoes=False))
    limit = b"\0\0\6\4\0\0\0\0\0\0\5\0\0\x50\0\0\0\6\4\0\0\0\0\0\0\4\x7f\xff\xff\xff"  # 20480, and the widest window
    server.send(START + limit + window_update(0, 1 << 20) + headers_frame(1))
    calls.calls[0].stream.respond(HEAD, [bytes(50_000), bytes(1000)], TRAILERS)

    sizes = [len(payload) for kind, _, _, payload in frames_of(server.written()) if kind == 0]
    assert sizes == [20_480, 20_480, 10_040]


def test_reset_streams_leave_no_trace() -> None:
    """A stream that waits for a window, and one that waits for its turn, are dropped with what they have queued."""
    server = Server(calls := Calls(echoes=False))
    server.send(START + headers_frame(1) + headers_frame(3))
    for call in calls.calls:
        call.stream.respond(HEAD, [bytes(100_000)], TRAILERS)
    server.written()
    server.send(b"".join(b"\0\0\4\3\0" + number.to_bytes(4, "big") + bytes(4) for number in (1, 3)))
    outbox = server.connection.outbox

    assert not outbox._ready
    assert not outbox._stalled
    assert list(frames_of(server.send(window_update(0, 1 << 20)))) == []
    assert not any(call.codes for call in calls.calls)


def test_data_after_the_answer_is_dropped() -> None:
    server = Server(calls := Calls(echoes=False))
    server.send(START + headers_frame(1, flags=4))
    calls.calls[0].stream.respond(HEAD, [bytes(100_000)], TRAILERS)
    server.written()
    server.send(data_frame(1, b"still coming", 1))

    assert calls.calls[0].pieces == []
    assert not calls.calls[0].is_complete


@pytest.mark.parametrize(
    "limit",
    [
        {"frame_bytes": 16_383},
        {"frame_bytes": 1 << 24},
        {"stream_window_bytes": 1 << 31},
        {"connection_window_bytes": 1},
    ],
)
def test_limits_that_http2_does_not_have(limit: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(limit))):
        Limits(**limit)  # type: ignore[arg-type]
