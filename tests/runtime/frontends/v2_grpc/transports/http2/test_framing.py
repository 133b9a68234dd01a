"""gRPC's frames, cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.frontends.v2_grpc.status import StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX, Assembler


def framed(messages: list[tuple[int, bytes]]) -> bytes:
    return b"".join(PREFIX.pack(flag, len(message)) + message for flag, message in messages)


def feed(assembler: Assembler, piece: bytes) -> list[tuple[int, bytes]]:
    """What a piece completes. Its buffer is overwritten afterwards, as that of the wire is."""
    buffer = bytearray(piece)
    found = list(assembler.feed(memoryview(buffer)))
    buffer[:] = b"\xee" * len(buffer)
    return [(flag, bytes(message)) for flag, message in found]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.one_of(
                st.binary(max_size=40), st.integers(16_000, 40_000).map(lambda size: bytes(range(256)) * (size // 256))
            ),
        ),
        max_size=6,
    ),
    st.lists(st.integers(1, 30_000), max_size=30),
)
def test_messages_come_out_as_they_went_in(messages: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data, assembler, found = framed(messages), Assembler(), []
    for size in [*cuts, len(data)]:
        piece, data = data[:size], data[size:]
        found += feed(assembler, piece)
    assert found == messages
    assert assembler.is_between_messages


def test_a_message_longer_than_its_deposit() -> None:
    message = bytes(range(256)) * (40 << 12)
    assembler, found = Assembler(), []
    data = framed([(0, message), (1, b"x")])
    for start in range(0, len(data), 1_000_003):
        found += feed(assembler, data[start : start + 1_000_003])
    assert found == [(0, message), (1, b"x")]


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0\0", b"\0\0\0\0\1", b"\0\0\0\0\5abcd"])
def test_it_is_known_whether_a_message_is_cut_short(sent: bytes) -> None:
    assembler = Assembler()
    assert feed(assembler, sent) == []
    assert not assembler.is_between_messages


def test_what_is_announced_costs_nothing() -> None:
    """Ten thousand clients announce two gigabytes each and send a byte of them."""
    assemblers = [Assembler() for _ in range(10_000)]
    for assembler in assemblers:
        assert feed(assembler, PREFIX.pack(0, 2**31 - 1) + b"a") == []


@pytest.mark.parametrize(
    ("prefix", "code"),
    [
        (PREFIX.pack(2, 0), StatusCode.INTERNAL),
        (PREFIX.pack(255, 1), StatusCode.INTERNAL),
        (PREFIX.pack(0, 2**31), StatusCode.RESOURCE_EXHAUSTED),
        (PREFIX.pack(1, 2**32 - 1), StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_messages_that_cannot_be_taken(prefix: bytes, code: StatusCode) -> None:
    with pytest.raises(CallError) as caught:
        feed(Assembler(), prefix)
    assert caught.value.status.code is code


def test_a_message_that_there_is_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("charonia_runtime.frontends.v2_grpc.transports.http2.framing.np.empty", refuse)
    with pytest.raises(CallError, match="no memory for a message of 100000 bytes") as caught:
        feed(Assembler(), PREFIX.pack(0, 100_000) + b"a")
    assert caught.value.status.code is StatusCode.RESOURCE_EXHAUSTED
