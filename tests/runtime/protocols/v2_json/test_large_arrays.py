"""Large texts: whatever the reader in pieces makes of a request is what the reader of whole documents makes of it."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.protocols import json_text
from charonia_runtime.protocols.v2_json import large_arrays
from charonia_runtime.protocols.v2_json.data import decode_data
from charonia_runtime.protocols.v2_json.header import read_header
from charonia_runtime.protocols.v2_json.large_arrays import LargeArray, read_large

TYPES = ["BOOL", "UINT8", "UINT64", "INT32", "INT64", "FP32", "FP64", "BYTES"]
LIMIT = 1 << 24
numbers = st.one_of(
    st.integers(-(2**63), 2**64), st.integers(-200, 200), st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=3))
arrays = st.one_of(
    st.lists(numbers, max_size=6),
    st.lists(st.lists(numbers, max_size=3), max_size=3),
    st.lists(scalars, max_size=4),
    st.recursive(st.lists(numbers, max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=8),
)


@pytest.fixture(autouse=True, scope="module")
def _every_array_is_long():
    """Pieces of some tokens, and no array too short for them."""
    with pytest.MonkeyPatch.context() as patch:
        pattern = large_arrays._TOKENS.pattern.replace(b"{1,64}+", b"{1,3}+").replace(b"{0,4096}+", b"{0,3}+")
        patch.setattr(large_arrays, "_TOKENS", large_arrays.re.compile(pattern, large_arrays.re.DOTALL))
        patch.setattr(large_arrays, "_LONG_BYTES", 2)
        patch.setattr(large_arrays, "_PIECE_BYTES", 5)
        patch.setattr(large_arrays, "_LARGE_BYTES", 0)
        yield


def a_text(data: Any, **more: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "IN", "data": data, **more}], "id": "x"}).encode()


def decoded(document: Any, datatype: str, count: int) -> Any:
    """The bytes, or the error's text."""
    try:
        data = document["inputs"][0]["data"]
        return bytes(decode_data("IN", DataType.from_wire(datatype), (count,), data, LIMIT))
    except InferenceError as error:
        return type(error), error.message


def outcome(text: bytes, read: Any) -> Any:
    """The tensor of a whole header, or the error's text."""
    try:
        header = read(text)
    except InferenceError as error:
        return type(error), error.message
    return {name: (part.shape, bytes(part.data)) for name, part in header.inputs.items()}


def read_in_pieces(text: bytes) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("charonia_runtime.protocols.v2_json.header.FROM_BYTES", 0)
        return read_header(text, 0, "m", LIMIT)


def read_whole(text: bytes) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("charonia_runtime.protocols.v2_json.header.FROM_BYTES", 1 << 30)
        return read_header(text, 0, "m", LIMIT)


@given(arrays, st.sampled_from(TYPES), st.integers(0, 6))
def test_pieces_are_decoded_like_a_whole(data: Any, datatype: str, count: int) -> None:
    text = a_text(data)
    assert decoded(read_large(text)[0], datatype, count) == decoded(json_text.read(text), datatype, count)


@given(
    st.lists(st.sampled_from([b"[", b"]", b",", b"1", b"-2.5", b'"a,]"', b'"', b" ", b"true", b"{", b'"data":', b"\\"]))
)
def test_no_mistake_in_an_array_gets_lost(tokens: list[bytes]) -> None:
    text = b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[2],"data":[%b]}]}' % b"".join(tokens)
    assert outcome(text, read_in_pieces) == outcome(text, read_whole)


@given(st.data(), st.sampled_from([b",", b"[", b"]", b"x", b'"', b"}", b"\x00", b"\xff"]))
def test_mistakes_keep_their_places(data: st.DataObject, wrong: bytes) -> None:
    text = a_text([[1, 2, 3], [4.5, 5, 6]], datatype="FP32", shape=[6])
    at = data.draw(st.integers(1, len(text) - 1))
    for changed in (text[:at] + wrong + text[at:], text[:at] + text[at + 1 :], text[:at]):
        assert outcome(changed, read_in_pieces) == outcome(changed, read_whole)


def test_numbers_are_read_without_lists() -> None:
    document, found = read_large(a_text([[0.5, 2], [3, -1e300]], shape=[2, 2], parameters={"a": [1]}))
    data = document["inputs"][0].pop("data")
    assert isinstance(data, LargeArray)
    assert found == [data]
    assert document == {"id": "x", "inputs": [{"name": "IN", "shape": [2, 2], "parameters": {"a": [1]}}]}
    values = decode_data("IN", DataType.FP32, (2, 2), data, LIMIT)
    assert np.frombuffer(values, np.float32).tolist() == [0.5, 2.0, 3.0, -math.inf]


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":"a","id":"b","inputs":[]}',
        b'{"inputs":[{"name":"IN","data":[{"a":1}]}]}',
        b'{"inputs":[{"name":"IN","data":"text: with a colon"}]}',
        b'{"inputs":[{"name":"IN","data":"\\"data\\":[1,2,3]"}]}',
        b'{"inputs":[{"name":"IN","\\"data":[1,2,3]}]}',
        b'{"inputs":[1,[2]]}',
        b'{"id":"\xff","inputs":[]}',
        b'["inputs"]',
        b"17",
    ],
)
def test_documents_without_such_arrays_are_read_whole(text: bytes) -> None:
    document, found = read_large(text)
    assert repr(document) == repr(json_text.read(text))
    assert found == []


def test_of_repeated_keys_the_first_counts() -> None:
    text = b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[1],"data":[1],"data":[2]}]}'
    assert outcome(text, read_in_pieces) == outcome(text, read_whole) == {"IN": ((1,), b"\0\0\x80\x3f")}
