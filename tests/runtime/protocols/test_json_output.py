"""JSON as RapidJSON writes it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.protocols.json_output import render, render_floats, render_integers, render_text, render_texts

SPELLINGS = [
    (0.0, b"0.0"), (-0.0, b"-0.0"), (1.0, b"1.0"), (0.1, b"0.1"), (-1.5, b"-1.5"),
    (1e15, b"1000000000000000.0"), (1e16, b"10000000000000000.0"), (1.5e16, b"15000000000000000.0"),
    (1e20, b"100000000000000000000.0"), (123456789012345680000.0, b"123456789012345680000.0"),
    (1e21, b"1e21"), (-1.5e21, b"-1.5e21"), (1e100, b"1e100"), (1e308, b"1e308"),
    (1e-5, b"0.00001"), (1e-6, b"0.000001"), (-1.25e-6, b"-0.00000125"), (1e-7, b"1e-7"), (1.5e-7, b"1.5e-7"),
    (1e-60, b"1e-60"), (1e-61, b"1e-61"), (5e-324, b"5e-324"),
    (math.inf, b"Infinity"), (-math.inf, b"-Infinity"), (math.nan, b"NaN"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), SPELLINGS, ids=[text.decode() for _, text in SPELLINGS])
def test_floats(value: float, text: bytes) -> None:
    assert render(value) == text


def test_floats_of_an_array_are_spelled_one_by_one() -> None:
    values, texts = zip(*SPELLINGS, strict=True)
    assert render_floats(np.array(values)) == b"[%b]" % b",".join(texts)


def test_single_floats_are_widened() -> None:
    assert render_floats(np.array([0.1, 16777217, 1e-5], np.float32)) == (
        b"[0.10000000149011612,16777216.0,0.000009999999747378752]"
    )


@given(st.lists(st.floats(allow_nan=False)))
def test_floats_read_back_as_the_same(values: list[float]) -> None:
    text = render_floats(np.array(values)).decode().removeprefix("[").removesuffix("]")
    assert [float(part.replace("Infinity", "inf")) for part in text.split(",") if part] == values


@pytest.mark.parametrize("dtype", ["?", "<i1", "<u1", "<i8", "<u8"])
def test_integers(dtype: str) -> None:
    array = np.array([0, 1, 1], dtype)
    assert render_integers(array) == (b"[false,true,true]" if dtype == "?" else b"[0,1,1]")


def test_arrays_that_lie_unaligned() -> None:
    raw = b"\0" + np.array([1.5, 2.5]).tobytes()
    assert render_floats(np.frombuffer(memoryview(raw)[1:], "<f8")) == b"[1.5,2.5]"
    raw = b"\0" + np.array([5, 6]).tobytes()
    assert render_integers(np.frombuffer(memoryview(raw)[1:], "<i8")) == b"[5,6]"


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("a/b é😀", '"a/b é😀"'.encode()),
        ('"\\', b'"\\"\\\\"'),
        ("\b\f\n\r\t", b'"\\b\\f\\n\\r\\t"'),
        ("\0\x1f\x7f", b'"\\u0000\\u001F\x7f"'),
        ("\udcff", b'"\xff"'),
        (b"\xff\xfe", b'"\xff\xfe"'),
    ],
)
def test_text(text: str | bytes, rendered: bytes) -> None:
    assert render_text(text) == rendered


def test_documents() -> None:
    assert render({"a": [1, True, None, 0.5, {}], "b": ()}) == b'{"a":[1,true,null,0.5,{}],"b":[]}'
    assert render_texts([b"a", b'"']) == b'["a","\\""]'
    with pytest.raises(TypeError):
        render(object())
