from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.errors import InternalError
from charonia_runtime.ipc.frames import HEADER, Frame, FrameReader, encode_frame

FRAMES = st.lists(
    st.tuples(
        st.integers(0, 255),
        st.lists(st.binary(max_size=200), max_size=3),
        st.integers(0, 255),
        st.integers(0, 0xFFFF),
        st.integers(0, 0xFFFFFFFF),
    ),
    max_size=20,
)


def read(reader: FrameReader, stream: bytes, sizes: Iterator[int]) -> list[Frame]:
    """All frames of `stream`, received in pieces of `sizes`."""
    frames = []
    at = 0
    while at < len(stream):
        space = reader.space()
        piece = stream[at : at + min(next(sizes), len(space))]
        space[: len(piece)] = piece
        reader.received(len(piece))
        at += len(piece)
        while (frame := reader.take()) is not None:
            frames.append(frame)
    return frames


@given(FRAMES, st.lists(st.integers(1, 500), min_size=1), st.booleans())
def test_frames_come_out_as_they_went_in(
    sent: list[tuple[int, list[bytes], int, int, int]], sizes: list[int], writable: bool
) -> None:
    stream = b"".join(
        encode_frame(kind, pieces, flags=flags, entry=entry, number=number)
        for kind, pieces, flags, entry, number in sent
    )
    pieces = (sizes[index % len(sizes)] for index in range(len(stream) + 1))
    frames = read(FrameReader(writable=writable), stream, pieces)
    assert [(frame.kind, bytes(frame.body), frame.flags, frame.entry, frame.number) for frame in frames] == [
        (kind, b"".join(body), flags, entry, number) for kind, body, flags, entry, number in sent
    ]
    assert all(frame.body.readonly is not writable for frame in frames)


def test_frames_larger_than_the_buffer_pass_and_the_buffer_shrinks_again() -> None:
    reader = FrameReader(writable=False)
    large = encode_frame(1, [bytes(range(256)) * 8000])
    small = encode_frame(2, [b"x"])
    frames = read(reader, large + small + large + small, iter(lambda: 50_000, None))
    assert [(frame.kind, len(frame.body)) for frame in frames] == [(1, 2_048_000), (2, 1)] * 2
    assert next(iter(read(reader, small, iter(lambda: 50_000, None)))).body == b"x"
    assert len(reader.space()) < 1 << 20


def test_bodies_stay_when_more_is_received() -> None:
    reader = FrameReader(writable=False)
    (first,) = read(reader, encode_frame(1, [b"first"]), iter(lambda: 1000, None))
    read(reader, encode_frame(1, [b"other"]), iter(lambda: 1000, None))
    assert first.body == b"first"


def test_a_header_that_makes_no_sense_is_refused() -> None:
    reader = FrameReader(writable=False)
    with pytest.raises(InternalError, match="malformed frame"):
        read(reader, HEADER.pack(5, 1, 0, 0, 0, 6) + b"12345", iter(lambda: 1000, None))


def test_a_size_that_is_only_claimed_takes_no_memory() -> None:
    reader = FrameReader(writable=False)
    assert read(reader, HEADER.pack(1 << 31, 20, 0, 0, 0, 0) + bytes(1000), iter(lambda: 500, None)) == []
    assert reader.is_amid_frame
    assert len(reader.space()) < 1 << 20


def test_longer_bodies_than_agreed_are_refused() -> None:
    reader = FrameReader(writable=False, most_bytes=100)
    assert len(read(reader, encode_frame(1, [bytes(100)]), iter(lambda: 50, None))) == 1
    assert not reader.is_amid_frame
    with pytest.raises(InternalError, match="malformed frame: a body of 101 bytes, at most 100 expected"):
        read(reader, encode_frame(1, [bytes(101)]), iter(lambda: 50, None))
