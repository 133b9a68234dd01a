"""Clients that break the protocol: what they are told, and that nothing surprises the connection."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.frames import PREFACE, frame_header, window_update
from charonia_runtime.wires.http2.header_blocks import encode_block
from charonia_runtime.wires.http2.limits import Limits
from tests.support.http2 import REQUEST_BLOCK, START, Calls, Server, data_frame, goaway_of, headers_frame, resets_of

EMPTY_SETTINGS = frame_header(0, 4, 0, 0)
OPEN = headers_frame(1, flags=0x4)
LENGTH_5 = headers_frame(1, REQUEST_BLOCK + encode_block([(b"content-length", b"5")]), 0x4)
CLOSED = headers_frame(1)


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return frame_header(len(payload), kind, flags, stream) + payload


def setting(name: int, value: int) -> bytes:
    return frame(4, name.to_bytes(2, "big") + value.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\n", errors.PROTOCOL_ERROR),
        (PREFACE[:-1] + b"X", errors.PROTOCOL_ERROR),
        (PREFACE + frame(6, bytes(8)), errors.PROTOCOL_ERROR),
        (PREFACE + OPEN, errors.PROTOCOL_ERROR),
        (PREFACE + frame_header(0, 4, 1, 0), errors.PROTOCOL_ERROR),
        (START + data_frame(0), errors.PROTOCOL_ERROR),
        (START + data_frame(1), errors.PROTOCOL_ERROR),
        (START + data_frame(2), errors.PROTOCOL_ERROR),
        (START + frame_header(1 << 21, 0, 0, 1), errors.FRAME_SIZE_ERROR),
        (START + frame_header(1 << 17, 1, 4, 1), errors.FRAME_SIZE_ERROR),
        (START + frame_header(1 << 17, 99, 0, 1), errors.FRAME_SIZE_ERROR),
        (START + OPEN + frame(0, b"\5abc", flags=8, stream=1), errors.PROTOCOL_ERROR),
        (START + OPEN + frame(0, b"", flags=8, stream=1), errors.PROTOCOL_ERROR),
        (START + headers_frame(0), errors.PROTOCOL_ERROR),
        (START + headers_frame(1, encode_block([(b"a", b"b" * 64_000)] * 2)[:65_537]), errors.FRAME_SIZE_ERROR),
        (START + headers_frame(1, bytes(60_000), flags=0) + frame(9, bytes(6000), stream=1), errors.ENHANCE_YOUR_CALM),
        (START + headers_frame(1, b"\x82" * 2000), errors.ENHANCE_YOUR_CALM),
        (START + headers_frame(2), errors.PROTOCOL_ERROR),
        (START + headers_frame(3) + headers_frame(1), errors.STREAM_CLOSED),
        (START + CLOSED + headers_frame(1), errors.STREAM_CLOSED),
        (START + frame(1, b"", flags=0xC, stream=1), errors.FRAME_SIZE_ERROR),
        (START + frame(1, b"\1\x82", flags=0xC, stream=1), None),
        (START + frame(1, b"\2\x82", flags=0xC, stream=1), errors.PROTOCOL_ERROR),
        (START + frame(1, b"\0\0\0", flags=0x24, stream=1), errors.FRAME_SIZE_ERROR),
        (START + frame(1, b"\0\0\0\1\0", flags=0x24, stream=1), errors.PROTOCOL_ERROR),
        (START + frame(9, b"", stream=1), errors.PROTOCOL_ERROR),
        (START + headers_frame(1, flags=0) + OPEN, errors.PROTOCOL_ERROR),
        (START + headers_frame(1, flags=0) + data_frame(1), errors.PROTOCOL_ERROR),
        (START + headers_frame(1, flags=0) + frame(9, b"", stream=3), errors.PROTOCOL_ERROR),
        (START + headers_frame(1, flags=0) + frame(99, b""), errors.PROTOCOL_ERROR),
        (START + headers_frame(1, b"\x80"), errors.COMPRESSION_ERROR),
        (START + frame(2, bytes(5)), errors.PROTOCOL_ERROR),
        (START + frame(2, bytes(4), stream=1), errors.FRAME_SIZE_ERROR),
        (START + frame(2, b"\0\0\0\1\0", stream=1), errors.PROTOCOL_ERROR),
        (START + frame(3, bytes(4), stream=1), errors.PROTOCOL_ERROR),
        (START + frame(3, bytes(4)), errors.PROTOCOL_ERROR),
        (START + frame(3, bytes(4), stream=2), errors.PROTOCOL_ERROR),
        (START + OPEN + frame(3, bytes(3), stream=1), errors.FRAME_SIZE_ERROR),
        (START + frame(4, stream=1), errors.PROTOCOL_ERROR),
        (START + frame(4, bytes(5)), errors.FRAME_SIZE_ERROR),
        (START + frame(4, bytes(6), flags=1), errors.FRAME_SIZE_ERROR),
        (START + frame(4, bytes(6) * 33), errors.ENHANCE_YOUR_CALM),
        (START + setting(2, 2), errors.PROTOCOL_ERROR),
        (START + setting(4, 1 << 31), errors.FLOW_CONTROL_ERROR),
        (START + setting(5, 16_383), errors.PROTOCOL_ERROR),
        (START + setting(5, 1 << 24), errors.PROTOCOL_ERROR),
        (START + frame(5, bytes(4), stream=1), errors.PROTOCOL_ERROR),
        (START + frame(6, bytes(7)), errors.FRAME_SIZE_ERROR),
        (START + frame(6, bytes(8), stream=1), errors.PROTOCOL_ERROR),
        (START + frame(7, bytes(8), stream=1), errors.PROTOCOL_ERROR),
        (START + frame(7, bytes(7)), errors.FRAME_SIZE_ERROR),
        (START + frame(8, bytes(3)), errors.FRAME_SIZE_ERROR),
        (START + window_update(0, 0), errors.PROTOCOL_ERROR),
        (START + window_update(0, 2**31 - 1), errors.FLOW_CONTROL_ERROR),
        (START + window_update(1, 1), errors.PROTOCOL_ERROR),
        (START + window_update(2, 1), errors.PROTOCOL_ERROR),
        (START + OPEN + window_update(1, 2**31 - 1 - 65_535) + setting(4, 65_536), errors.FLOW_CONTROL_ERROR),
        (START + OPEN + frame(1, b"", flags=5, stream=1) + headers_frame(1), errors.STREAM_CLOSED),
        (START + frame(99, b"what?") + setting(77, 1) + frame(7, bytes(8)) + frame(2, bytes(5), stream=9), None),
        (START + frame_header(0, 4, 1, 0) + frame(6, bytes(8), flags=1) + setting(2, 0) + setting(1, 0), None),
    ],
)  # fmt: skip
def test_faults_of_connections(sent: bytes, code: int | None) -> None:
    server = Server(Calls(echoes=False), Limits(ping_strikes=0))
    written = goaway_of(server.send(sent))

    assert (written and written[0]) == code
    assert server.connection.is_closed == server.connection.is_dismissed == (code is not None)
    assert server.send(b"anything") == b"" or code is None


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (OPEN + data_frame(1, b"x", 1) + data_frame(1, b"y"), errors.STREAM_CLOSED),
        (OPEN + headers_frame(1, flags=4), errors.PROTOCOL_ERROR),
        (OPEN + headers_frame(1, encode_block([(b"connection", b"close")])), errors.PROTOCOL_ERROR),
        (OPEN + window_update(1, 0), errors.PROTOCOL_ERROR),
        (OPEN + window_update(1, 2**31 - 1), errors.FLOW_CONTROL_ERROR),
        (LENGTH_5 + data_frame(1, b"123456"), errors.PROTOCOL_ERROR),
        (LENGTH_5 + data_frame(1, b"1234", 1), errors.PROTOCOL_ERROR),
        (LENGTH_5 + data_frame(1, b"1234") + headers_frame(1, b""), errors.PROTOCOL_ERROR),
        (headers_frame(1, encode_block([(b"a", b"b")])), errors.PROTOCOL_ERROR),
        (headers_frame(1, REQUEST_BLOCK + encode_block([(b"a", b"b" * 2000)])), errors.ENHANCE_YOUR_CALM),
        (OPEN + data_frame(1, bytes(1001)), errors.FLOW_CONTROL_ERROR),
        (OPEN + data_frame(1, bytes(400)) + data_frame(1, bytes(400)), None),
        (LENGTH_5 + data_frame(1, b"123") + data_frame(1, b"45", 1), None),
    ],
)  # fmt: skip
def test_faults_of_streams(sent: bytes, code: int | None) -> None:
    """Only the stream ends; what is on its way for it is no fault, and others go on."""
    calls = Calls(echoes=False)
    server = Server(calls, Limits(header_list_bytes=1000, stream_window_bytes=1000))
    written = server.send(START + sent)

    assert resets_of(written) == ([] if code is None else [(1, code)])
    assert [call.codes for call in calls.calls] == [[] if code is None else [code]] * len(calls.calls)
    if code is not None:
        assert resets_of(server.send(data_frame(1, b"x") + window_update(1, 5) + headers_frame(1))) == []
    assert goaway_of(server.send(headers_frame(3))) is None
    assert not server.connection.is_closed
    assert calls.calls[-1].is_complete


def test_data_for_a_stream_that_ended_resets_it() -> None:
    server = Server(Calls())
    server.send(START + headers_frame(1))

    assert resets_of(server.send(data_frame(1, b"x"))) == [(1, errors.STREAM_CLOSED)]


def test_more_than_the_connection_s_window() -> None:
    server = Server(Calls(echoes=False), Limits(connection_window_bytes=100_000, stream_window_bytes=1 << 20))
    server.send(START + OPEN)

    assert goaway_of(server.send(data_frame(1, bytes(100_001)))) == (
        errors.FLOW_CONTROL_ERROR, "more than the connection's window",
    )  # fmt: skip


MEANINGFUL = st.sampled_from((
    OPEN, CLOSED, headers_frame(3), headers_frame(5, flags=0), frame(9, b"", flags=4, stream=5), data_frame(1, b"abc"),
    data_frame(1, b"", 1), frame(3, bytes(4), stream=1), window_update(0, 5), window_update(1, 5), setting(4, 0),
    setting(4, 10), setting(5, 20_000), setting(1, 0), frame(6, bytes(8)), frame(7, bytes(8)), EMPTY_SETTINGS,
    frame(0, b"\2abcd", flags=9, stream=1), frame(2, bytes(5), stream=7), headers_frame(1, b"\x82\x84"),
))  # fmt: skip
ANY_FRAME = st.builds(
    lambda kind, flags, stream, payload: frame(kind, payload, flags=flags, stream=stream),
    st.integers(0, 11), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=50),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(MEANINGFUL, ANY_FRAME, st.binary(max_size=30)), max_size=25),
    st.sampled_from((None, 1, 7, 50)),
    st.booleans(),
)
def test_no_bytes_surprise_it(pieces: list[bytes], cut: int | None, echoes: bool) -> None:
    """Nothing is raised, every cut gives the same calls, and what is kept is bounded by what came."""
    calls, whole_calls = Calls(echoes=echoes), Calls(echoes=echoes)
    sent = START + b"".join(pieces)
    server = Server(calls)
    server.send(sent, cut=cut)
    server.tick(1)
    whole = Server(whole_calls)
    whole.send(sent)

    assert [(call.body, call.is_complete, call.codes) for call in calls.calls] == [
        (call.body, call.is_complete, call.codes) for call in whole_calls.calls
    ]
    assert server.connection.is_closed == whole.connection.is_closed
    assert server.rest == whole.rest
    assert len(server.rest) < 9 + 65_536
    server.connection.lose()
    assert server.connection.streams == {}
    assert not any(call.stream.is_open for call in calls.calls)


@given(st.binary(max_size=300))
def test_no_first_bytes_surprise_it(sent: bytes) -> None:
    server = Server(Calls())
    server.send(sent)

    assert server.connection.is_closed or PREFACE.startswith(sent)
