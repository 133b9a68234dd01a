"""Documents that would cost gigabytes or seconds are refused before they are read; strings may hold anything."""

import re

import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.protocols import json_text
from charonia_runtime.protocols.json_limits import MAXIMUM_ENTRIES, MAXIMUM_VALUES, check_size, reads_slowly
from tests.support.hostile_bodies import long_documents, repeated

TOO_LARGE = re.escape(f"the request JSON has more than {MAXIMUM_ENTRIES} objects, arrays and members")


@pytest.mark.parametrize("body", list(long_documents(2_500_000)), ids=lambda body: body.name)
def test_what_would_take_gigabytes_is_refused_unread(body, monkeypatch) -> None:
    monkeypatch.setattr(json_text.orjson, "loads", lambda text: pytest.fail("it was read"))
    with pytest.raises(InvalidArgumentError, match=TOO_LARGE):
        json_text.read(body.text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":"%b"}' % (b'[{:,\\"' * 500_000),
        b'{"a":"%b","b":[1]}' % (b"\\n" * 1_000_000 + b"{" * 200_000),
        repeated(b"1.5", MAXIMUM_VALUES, b"[", b"]"),
        repeated(b'"[,:{"', 300_000, b"[", b"]"),
        repeated(b"[]", MAXIMUM_ENTRIES - 1, b"[", b"]"),
    ],
    ids=["string", "escapes", "values", "strings", "arrays"],
)
def test_what_fits_is_read(text: bytes) -> None:
    check_size(text)


@pytest.mark.parametrize("end", [b'"', b'"abc', b'"\\', b'{"a":"' + b"x" * 300_000])
def test_an_open_string_is_left_to_the_reader(end: bytes) -> None:
    text = repeated(b'"[,:{"', 200_000, b"[", end)
    check_size(text)
    with pytest.raises(json_text.InternalError):
        json_text.read(text)


def test_entries_beyond_a_long_string_count() -> None:
    text = b'["%b",%b]' % (b"x" * 1_000_000, repeated(b"[]", MAXIMUM_ENTRIES))
    with pytest.raises(InvalidArgumentError, match=TOO_LARGE):
        check_size(text)


def test_only_what_costs_time_is_read_in_a_thread() -> None:
    assert not reads_slowly(b'{"inputs":[]}')
    assert not reads_slowly(repeated(b"1", 20_000, b"[", b"]"))
    assert reads_slowly(repeated(b"[]", 10_000, b"[", b"]"))
    assert reads_slowly(repeated(b"1", 200_000, b"[", b"]"))
