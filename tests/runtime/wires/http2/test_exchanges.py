"""Whole exchanges with the `h2` package as the client."""

import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.header_blocks import encode_block
from charonia_runtime.wires.http2.limits import Limits
from tests.support.http2 import HEAD, TRAILERS, Calls, Client, data_frame

OK = {":status": "200", "content-type": "application/grpc"}
DONE = {"grpc-status": "0"}


def test_a_unary_call() -> None:
    client = Client(calls := Calls())
    stream = client.request(b"hello")

    assert client.answer(stream) == (OK, b"hello", DONE)
    head = calls.calls[0].stream.head
    assert (head.method, head.scheme, head.path, head.authority) == (b"POST", b"http", b"/a/B", b"host")
    assert head.fields == ((b"te", b"trailers"),)
    assert client.server.connection.streams == {}


def test_a_request_without_a_body() -> None:
    client = Client(Calls())

    assert client.answer(client.request()) == (OK, b"", DONE)


@settings(max_examples=60, deadline=None)
@given(
    bodies=st.lists(st.lists(st.binary(max_size=40_000), max_size=4), max_size=6),
    padding=st.sampled_from((None, 0, 7, 255)),
    cut=st.sampled_from((None, 1000, 4099)),
    window=st.sampled_from((1000, 65_535, 1 << 20)),
    frame=st.sampled_from((16_384, 100_000)),
)
def test_whatever_is_sent_comes_back(
    bodies: list[list[bytes]], padding: int | None, cut: int | None, window: int, frame: int
) -> None:
    """Any bodies, cuts and windows; with windows this small, both sides must give new ones again and again."""
    client = Client(Calls(), Limits(stream_window_bytes=30_000, connection_window_bytes=70_000))
    client.h2.update_settings({
        h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window, h2.settings.SettingCodes.MAX_FRAME_SIZE: frame,
    })  # fmt: skip
    client.exchange()
    client.cut = cut
    for pieces in bodies:
        stream = client.request(*pieces, padding=padding)
        assert client.answer(stream) == (OK, b"".join(pieces), DONE)


def test_bytes_that_come_one_by_one() -> None:
    client = Client(Calls())
    client.cut = 1
    stream = client.request(b"hello", b"world", padding=3)

    assert client.answer(stream) == (OK, b"helloworld", DONE)


def test_streams_go_side_by_side() -> None:
    client = Client(calls := Calls(echoes=False))
    streams = [client.request(b"%d" % number) for number in range(20)]
    for call in reversed(calls.calls):
        call.stream.respond(HEAD, [call.body * 1000], TRAILERS)
    client.exchange()

    for number, stream in enumerate(streams):
        assert client.answer(stream)[1] == b"%d" % number * 1000


def test_large_answers_take_turns() -> None:
    client = Client(calls := Calls(echoes=False))
    large, small = client.request(), client.request()
    client.h2.increment_flow_control_window(1 << 24)
    client.h2.increment_flow_control_window(1 << 24, large)
    client.exchange()
    calls.calls[0].stream.respond(HEAD, [bytes(4 << 20)], TRAILERS)
    calls.calls[1].stream.respond(HEAD, [bytes(20_000)], TRAILERS)
    client.exchange()

    ended = [event.stream_id for event in client.saw(h2.events.StreamEnded)]
    assert ended == [small, large]
    assert len(client.answer(large)[1]) == 4 << 20


def test_a_stream_of_messages_both_ways() -> None:
    client = Client(calls := Calls(echoes=False))
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")])
    client.exchange()
    (call,) = calls.calls
    call.stream.send_head(HEAD)
    for number in range(5):
        client.send(stream, b"%d" % number)
        call.stream.send_data([b"got ", b"%d;" % number])
        client.exchange()
    client.h2.end_stream(stream)
    client.exchange()
    assert call.is_complete
    call.stream.send_trailers(TRAILERS)
    client.exchange()

    assert call.body == b"01234"
    assert client.answer(stream) == (OK, b"got 0;got 1;got 2;got 3;got 4;", DONE)
    assert not call.stream.is_open


def test_trailers_alone_are_an_answer() -> None:
    client = Client(calls := Calls(echoes=False))
    stream = client.request(b"x")
    calls.calls[0].stream.send_trailers(HEAD)
    client.exchange()

    assert client.answer(stream) == (OK, b"", {})
    assert len(client.saw(h2.events.StreamEnded)) == 1


def test_trailers_of_a_request_end_it() -> None:
    client = Client(calls := Calls())
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")])
    client.send(stream, b"body")
    client.h2.send_headers(stream, [("checksum", "1")], end_stream=True)
    client.exchange()

    assert calls.calls[0].body == b"body"
    assert client.answer(stream) == (OK, b"body", DONE)


def test_an_answer_before_the_request_s_end_stops_the_client() -> None:
    client = Client(calls := Calls(echoes=False))
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")])
    client.exchange()
    calls.calls[0].stream.respond(HEAD, [b"enough"], TRAILERS)
    client.exchange()

    assert client.server.send(data_frame(stream, b"was on its way")) == b""
    assert client.answer(stream) == (OK, b"enough", DONE)
    (reset,) = client.saw(h2.events.StreamReset)
    assert reset.error_code == errors.NO_ERROR
    assert calls.calls[0].codes == []
    assert not client.server.connection.is_closed


def test_a_client_s_reset_reaches_the_handler() -> None:
    client = Client(calls := Calls(echoes=False))
    stream = client.request(b"x")
    client.h2.reset_stream(stream, errors.CANCEL)
    client.exchange()
    (call,) = calls.calls

    assert call.codes == [errors.CANCEL]
    assert not call.stream.is_open
    call.stream.respond(HEAD, [b"late"], TRAILERS)
    client.exchange()
    assert client.answer(stream)[1] == b""


def test_the_handler_resets() -> None:
    client = Client(calls := Calls(echoes=False))
    stream = client.request(b"x")
    calls.calls[0].stream.reset(errors.INTERNAL_ERROR)
    client.exchange()

    (reset,) = client.saw(h2.events.StreamReset)
    assert (reset.stream_id, reset.error_code) == (stream, errors.INTERNAL_ERROR)
    assert calls.calls[0].codes == []


def test_equal_headers_give_the_same_head() -> None:
    client = Client(calls := Calls())
    for _ in range(4):
        client.request(b"x")
    heads = [call.stream.head for call in calls.calls]

    assert heads[1] is not heads[0]  # the first block filled the table
    assert heads[1] is heads[2] is heads[3]


def test_lost_connections_abort_what_is_open() -> None:
    client = Client(calls := Calls(echoes=False))
    client.request(b"x")
    client.server.connection.lose()

    assert calls.calls[0].codes == [errors.CANCEL]
    assert not calls.calls[0].stream.is_open


@pytest.mark.parametrize("size", [0, 4096, 65_536])
def test_clients_choose_the_size_of_a_table_that_is_never_used(size: int) -> None:
    """A client that shrinks the table refuses header blocks until it is told that its wish was read."""
    client = Client(Calls())
    client.h2.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: size})
    client.exchange()

    for _ in range(2):
        assert client.answer(client.request(b"x")) == (OK, b"x", DONE)


def test_large_header_blocks_are_continued() -> None:
    client = Client(calls := Calls(echoes=False))
    stream = client.request()
    calls.calls[0].stream.send_trailers(encode_block([(b":status", b"200"), (b"grpc-message", b"m" * 40_000)]))
    client.exchange()

    assert client.answer(stream)[0]["grpc-message"] == "m" * 40_000
