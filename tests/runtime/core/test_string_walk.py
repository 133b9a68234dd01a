"""The walk over BYTES elements against the plain loop that it stands for, whole and cut short, even and mixed."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.string_walk import StringWalk, WalkedTensor, walk_of, walk_strings
from charonia_runtime.core.tensor import Tensor


def walked_plainly(buffer: bytes, expected: int) -> StringWalk:
    at = count = length = 0
    while count < expected and at + 4 <= len(buffer):
        (length,) = struct.unpack_from("<I", buffer, at)
        at += 4 + length
        count += 1
    return StringWalk(expected, count, at, length)


def packed(lengths: list[int]) -> bytes:
    return b"".join(struct.pack("<I", length) + b"\x01" * length for length in lengths)


runs = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 3, 4095, 4096, 4097, 9000])), max_size=5)


@given(runs, st.integers(-9, 9), st.integers(0, 12), st.binary(max_size=9))
def test_the_outcome_is_that_of_the_plain_loop(runs, more, cut, behind):
    lengths = [length for length, count in runs for _ in range(count)]
    text = packed(lengths)
    buffer = text[: max(0, len(text) - cut)] + behind
    expected = len(lengths) + more
    assert walk_strings(memoryview(buffer), expected) == walked_plainly(buffer, expected)


def test_a_run_that_claims_more_than_there_is_ends_where_the_buffer_does():
    buffer = packed([5] * 5000) + struct.pack("<I", 2**32 - 1) + packed([5] * 5000)
    assert walk_strings(memoryview(buffer), 10_001) == StringWalk(10_001, 5001, 9 * 5000 + 4 + 2**32 - 1, 2**32 - 1)


def test_millions_of_even_elements_are_compared_and_not_read_one_by_one(monkeypatch):
    """Fails by the count of elements that are read singly, not by the clock."""
    blocks = []
    monkeypatch.setattr(
        "charonia_runtime.core.string_walk.range", lambda stop: blocks.append(stop) or range(stop), raising=False
    )
    assert walk_strings(memoryview(bytes(4 << 20)), 1 << 20).end == 4 << 20
    assert sum(blocks) == 4096


def test_a_walk_ends_soon_when_nobody_wants_its_outcome_any_more():
    lengths = [0, 1] * 50_000
    assert walk_strings(memoryview(packed(lengths)), len(lengths), lambda: False).count < 10_000


def test_a_tensor_is_walked_once_for_each_number_of_elements():
    tensor = Tensor("IN", DataType.BYTES, (2,), memoryview(packed([1, 2])))
    walked = WalkedTensor(tensor, StringWalk(2, 1, 5, 1))
    assert walk_of(walked, 2) is walked.walk
    assert walk_of(walked, 3) == StringWalk(3, 2, 11, 2)
    assert walk_of(tensor, 2) == StringWalk(2, 2, 11, 2)
