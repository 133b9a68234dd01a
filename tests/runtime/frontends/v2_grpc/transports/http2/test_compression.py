"""Compressed messages: what comes out, and what must not."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.frontends.v2_grpc.status import StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import (
    ENCODINGS,
    chosen_encoding,
    deflate,
    inflate,
)
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError


@given(
    st.lists(st.binary(max_size=200), max_size=5),
    st.sampled_from(ENCODINGS),
    st.sampled_from(["low", "medium", "high"]),
)
def test_messages_come_back(parts: list[bytes], encoding: str, level: str) -> None:
    assert inflate(memoryview(deflate(parts, encoding, level)), encoding) == b"".join(parts)


def bomb(size: int) -> bytes:
    deflater = zlib.compressobj(9)
    zeros = bytes(1 << 20)
    return b"".join([*(deflater.compress(zeros) for _ in range(size >> 20)), deflater.flush()])


def test_bombs_are_refused_before_they_go_off() -> None:
    with pytest.raises(CallError, match="holds more than 67108864 bytes") as caught:
        inflate(bomb(100 << 20), "deflate")
    assert caught.value.status.code is StatusCode.RESOURCE_EXHAUSTED


def test_tensors_of_zeros_are_no_bombs() -> None:
    assert len(inflate(bomb(64 << 20), "deflate")) == 64 << 20


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "other"])
def test_damaged_messages(encoding: str, damage: str) -> None:
    whole = deflate([b"content" * 100], encoding, "low")
    other = deflate([b"content"], "gzip" if encoding == "deflate" else "deflate", "low")
    sent = {"cut": whole[:-5], "garbage": b"\xff" * 50, "empty": b"", "other": other}[damage]
    with pytest.raises(CallError) as caught:
        inflate(sent, encoding)
    assert caught.value.status.code is StatusCode.INTERNAL


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("", ""), ("identity", ""), ("gzip", "gzip"), ("identity, deflate, gzip", "gzip"), ("deflate,identity", "deflate"),
        ("br, zstd", ""), (",,", ""),
    ],
)  # fmt: skip
def test_the_compression_of_answers(accepted: str, chosen: str) -> None:
    assert chosen_encoding(accepted) == chosen
