"""JSON as RapidJSON reads it."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.protocols.json_text import (
    MAXIMUM_DEPTH,
    as_array,
    as_bool,
    as_object,
    as_string,
    as_unsigned,
    member,
    pairs_of,
    read,
)

SYNTAX_ERRORS = [
    (b"", "The document is empty. at 0"),
    (b" \n", "The document is empty. at 2"),
    (b"hello", "Invalid value. at 0"),
    (b"nul", "Invalid value. at 3"),
    (b"trux", "Invalid value. at 3"),
    (b"-", "Invalid value. at 1"),
    (b"-x", "Invalid value. at 1"),
    (b"[1,]", "Invalid value. at 3"),
    (b'{"inputs":', "Invalid value. at 10"),
    (b"{}x", "The document root must not be followed by other values. at 2"),
    (b"01", "The document root must not be followed by other values. at 1"),
    (b'{"inputs":[],}', "Missing a name for object member. at 13"),
    (b'{"inputs":[{"name":"INPUT0",', "Missing a name for object member. at 28"),
    (b'{"a" 1}', "Missing a colon after a name of object member. at 5"),
    (b'{"a":1 "b":2}', "Missing a comma or '}' after an object member. at 7"),
    (b"[1 2]", "Missing a comma or ']' after an array element. at 3"),
    (b"[1", "Missing a comma or ']' after an array element. at 2"),
    (b'["abc', "Missing a closing quotation mark in string. at 5"),
    (b'["a\x01"]', "Invalid encoding in string. at 3"),
    (b'["a\\x"]', "Invalid escape character in string. at 3"),
    (b'["a\\u12g4"]', "Incorrect hex digit after \\u escape in string. at 3"),
    (b'["a\\ud800"]', "The surrogate pair in string is invalid. at 3"),
    (b'["a\\udc00"]', "The surrogate pair in string is invalid. at 3"),
    (b'["\\ud800 \x01"]', "The surrogate pair in string is invalid. at 2"),
    (b"[1.]", "Miss fraction part in number. at 3"),
    (b"[1e]", "Miss exponent in number. at 3"),
    (b"[1e+]", "Miss exponent in number. at 4"),
    (b"[1,1e400]", "Number too big to be stored in double. at 3"),
    (b"[1,2,3,4,5,6,1e400,7]", "Number too big to be stored in double. at 13"),
]


@pytest.mark.parametrize(("text", "reason"), SYNTAX_ERRORS, ids=[repr(text) for text, _ in SYNTAX_ERRORS])
def test_syntax_errors(text: bytes, reason: str) -> None:
    with pytest.raises(InternalError) as caught:
        read(text)
    assert caught.value.message == f"failed to parse the request JSON buffer: {reason}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"\xef\xbb\xbf{}", {}),
        (b' { "a" : [ 1 , 2.5 , true , null , "x" ] } ', {"a": [1, 2.5, True, None, "x"]}),
        (b"[18446744073709551615,-9223372036854775808]", [2**64 - 1, -(2**63)]),
        (b"[18446744073709551616]", [float(2**64)]),
        (b"[-0]", [0]),
        (b"[Infinity,-Infinity,Inf,-Inf,1,2,3,4,5,6]", [math.inf, -math.inf, math.inf, -math.inf, 1, 2, 3, 4, 5, 6]),
        (b'["\xff\\u00e9\\ud83d\\ude00\\n\\/"]', ["\udcffé😀\n/"]),
        (b'{"a:b":"c:d","e":[{"f":":"}]}', {"a:b": "c:d", "e": [{"f": ":"}]}),
        (b"{}\0junk", {}),
    ],
)
def test_values(text: bytes, value: object) -> None:
    assert read(text) == value


def test_not_a_number() -> None:
    [first, second] = read(b"[NaN,-NaN]")
    assert math.isnan(first)
    assert math.isnan(second)


def test_the_first_of_equal_keys_wins_and_all_are_seen() -> None:
    document = read(b'{"a":1,"b":{"c":"x:","c":3},"a":2}')
    assert document["a"] == 1
    assert document["b"]["c"] == "x:"
    assert pairs_of(document) == [("a", 1), ("b", {"c": "x:"}), ("a", 2)]


def test_integers_stay_integers_and_floats_floats() -> None:
    assert [type(value) for value in read(b"[1,1.0,1e2,-0,NaN]")] == [int, float, float, int, float]


def test_deep_documents_are_read() -> None:
    """As deep as the real server's own tests go, where Python's parser would fail."""
    depth = 250_000
    value = read(b'{"ready":' + b"[" * depth + b"]" * depth + b"}")["ready"]
    for _ in range(depth - 1):
        [value] = value
    assert value == []


def test_documents_that_are_only_depth_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="nesting depth"):
        read(b"[" * (MAXIMUM_DEPTH + 2))


def test_long_arrays_with_odd_numbers_are_read_fast() -> None:
    text = b"[" + b"0.125,NaN," * 100 + b"0.5," * 200_000 + b"1]"
    start = time.perf_counter()
    assert len(read(text)) == 200_201
    assert time.perf_counter() - start < 1


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_well_formed_documents_are_read_as_any_parser_reads_them(value: object, ascii_only: bool, indent: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert read(text) == value
    assert read(b"\xef\xbb\xbf" + text) == value


@given(st.binary(max_size=40) | st.text('[]{}",:0123456789.eE+-NaInftrulsb\\ \n', max_size=30).map(str.encode))
def test_any_bytes_are_a_document_or_a_refusal(text: bytes) -> None:
    try:
        read(text)
    except InferenceError as error:
        assert error.message.startswith("failed to parse the request JSON buffer: ")


@pytest.mark.parametrize(
    ("convert", "good", "bad", "text"),
    [
        (as_string, "a", 1, "attempt to access JSON non-string as string"),
        (as_bool, False, 0, "attempt to access JSON non-boolean as boolean"),
        (as_unsigned, 0, -1, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (as_unsigned, 5, True, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (as_unsigned, 5, 1.0, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (as_array, [], {}, "attempt to access JSON non-array as array"),
        (as_object, {}, [], "attempt to access JSON non-object as object"),
        (pairs_of, {}, [], "attempt to get members for non-object"),
    ],
)
def test_types(convert: object, good: object, bad: object, text: str) -> None:
    assert callable(convert)
    assert convert(good) == (good if convert is not pairs_of else [])
    with pytest.raises(InternalError) as caught:
        convert(bad)
    assert caught.value.message == text


def test_members() -> None:
    assert member({"a": None}, "a") is None
    for document in ({}, [], 1):
        with pytest.raises(InternalError, match="attempt to access non-existing object member 'a'"):
            member(document, "a")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (b"1", "Missing a comma or ']' after an array element."),
        (b"1]x", "The document root must not be followed by other values."),
        (b"hello]", "Invalid value."),
        (b'"\\ud800"]', "The surrogate pair in string is invalid."),
        (b'"a', "Missing a closing quotation mark in string."),
        (b'{"a":1,}]', "Missing a name for object member."),
    ],
)
def test_large_texts_are_refused_fast(end: bytes, reason: str) -> None:
    """A hostile client may not keep the event loop busy, so the words are less exact, and the place near."""
    text = b'[{"a":"\xff"},' + b'{"a":1},' * 100_000 + end
    start = time.perf_counter()
    with pytest.raises(InternalError, match="failed to parse the request JSON buffer: ") as caught:
        read(text)
    assert time.perf_counter() - start < 2
    assert reason in caught.value.message
    assert abs(int(caught.value.message.rpartition(" ")[2]) - len(text)) < 12


def test_large_texts_are_read_like_small_ones() -> None:
    pairs = b'"\\ud83d\\ude00",NaN,' * 10_000
    document = read(b'{"a":[' + pairs + b'"\xff"],"a":2}')
    assert document["a"][0] == "😀"
    assert document["a"][-1] == "\udcff"
    assert [key for key, _ in pairs_of(document)] == ["a", "a"]
