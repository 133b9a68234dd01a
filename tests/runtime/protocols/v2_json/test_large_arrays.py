"""Large texts: whatever the quick way makes of a request is what the careful one makes of it."""

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
from charonia_runtime.protocols.v2_json.data import decode_data
from charonia_runtime.protocols.v2_json.large_arrays import LargeTextReader, NumberArray

TYPES = ["BOOL", "UINT8", "UINT64", "INT32", "INT64", "FP32", "FP64", "BYTES"]
numbers = st.one_of(
    st.integers(-(2**63), 2**64), st.integers(-200, 200), st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=3))
arrays = st.one_of(
    st.lists(numbers, max_size=6), st.lists(st.lists(numbers, max_size=3), max_size=3), st.lists(scalars, max_size=4)
)


def a_text(data: Any, **more: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "IN", "data": data, **more}], "id": "x"}).encode()


def decoded(document: Any, datatype: str, count: int) -> Any:
    """The bytes, or the error's text."""
    try:
        data = document["inputs"][0]["data"]
        return bytes(decode_data("IN", DataType.from_wire(datatype), (count,), data, 1 << 20))
    except InferenceError as error:
        return type(error), error.message


@given(arrays, st.sampled_from(TYPES), st.integers(0, 6))
def test_the_quick_way_decides_like_the_careful_one(data: Any, datatype: str, count: int) -> None:
    text = a_text(data)
    assert decoded(LargeTextReader().read(text), datatype, count) == decoded(json_text.read(text), datatype, count)


def test_numbers_are_read_without_lists() -> None:
    document = LargeTextReader().read(a_text([[0.5, 2], [3, -1e300]], shape=[2, 2], parameters={"a": [1]}))
    data = document["inputs"][0].pop("data")
    assert isinstance(data, NumberArray)
    assert document == {"id": "x", "inputs": [{"name": "IN", "shape": [2, 2], "parameters": {"a": [1]}}]}
    values = decode_data("IN", DataType.FP32, (2, 2), data, 1 << 20)
    assert np.frombuffer(values, np.float32).tolist() == [0.5, 2.0, 3.0, -math.inf]


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":"a","id":"b","inputs":[]}',
        b'{"inputs":[{"name":"IN","data":[1],"data":[2]}]}',
        b'{"inputs":[{"name":"IN","data":[NaN]}]}',
        b'{"inputs":[{"name":"IN","data":"text: with a colon"}]}',
        b'{"inputs":{"data":[1]}}',
        b'{"inputs":[1,[2]]}',
        b'{"id":"\xff","inputs":[]}',
        b'["inputs"]',
        b"17",
    ],
)
def test_unusual_documents_are_left_to_the_careful_reader(text: bytes) -> None:
    assert repr(LargeTextReader().read(text)) == repr(json_text.read(text))


def test_a_malformed_text_has_the_careful_readers_error_and_spoils_nothing() -> None:
    reader = LargeTextReader()
    for text in (b'{"inputs":[{"data":[1,2', a_text([1] * 10)[:-1]):
        with pytest.raises(InferenceError) as careful:
            json_text.read(text)
        with pytest.raises(InferenceError) as quick:
            reader.read(text)
        assert quick.value.message == careful.value.message
    assert isinstance(reader.read(a_text([1]))["inputs"][0]["data"], NumberArray)


def test_a_document_that_is_still_held_does_not_stand_in_the_way() -> None:
    reader = LargeTextReader()
    first = reader.read(a_text([1.0, 2.0]))
    second = reader.read(a_text([3.0]))
    assert decoded(second, "FP64", 1) == np.array([3.0]).tobytes()
    assert decoded(first, "FP64", 2) == np.array([1.0, 2.0]).tobytes()
