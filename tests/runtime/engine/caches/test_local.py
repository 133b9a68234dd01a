from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.engine.caches.local import Cache


def test_gives_back_what_was_inserted_in_parts():
    cache = Cache({"size": "10000"})

    cache.insert(b"key", [b"ab", memoryview(b"cd"), b""])

    assert cache.look_up(b"key") == b"abcd"
    assert cache.look_up(b"other") is None
    assert (cache.use.lookups, cache.use.hits, cache.use.misses, cache.use.entries) == (2, 1, 1, 1)


def test_keeps_the_first_entry_of_a_key():
    cache = Cache({"size": "10000"})

    cache.insert(b"key", [b"first"])
    cache.insert(b"key", [b"second"])

    assert cache.look_up(b"key") == b"first"


def test_does_not_keep_what_could_change():
    """The bytes of a response lie in memory that others use later."""
    memory = bytearray(b"before")
    cache = Cache({"size": "10000"})

    cache.insert(b"key", [memoryview(memory)])
    memory[:] = b"after!"

    assert cache.look_up(b"key") == b"before"


def test_the_least_recently_used_entries_leave_first():
    cache = Cache({"size": "1000"})
    for name in (b"a", b"b", b"c"):
        cache.insert(name, [bytes(100)])
    cache.look_up(b"a")

    cache.insert(b"d", [bytes(100)])

    assert [cache.look_up(name) is not None for name in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    assert cache.use.evictions == 1


def test_an_entry_larger_than_the_cache_throws_nothing_out(caplog: pytest.LogCaptureFixture):
    cache = Cache({"size": "1000"})
    cache.insert(b"small", [b"1"])

    cache.insert(b"large", [bytes(2000)])

    assert cache.look_up(b"large") is None
    assert cache.look_up(b"small") == b"1"
    assert "does not fit" in caplog.text


@pytest.mark.parametrize("given", [{}, {"size": ""}, {"size": "abc"}, {"size": "-5"}, {"other": "1"}])
def test_refuses_to_start_without_a_size(given: dict[str, str]):
    with pytest.raises(InvalidArgumentError, match="config didn't contain a valid 'size' field"):
        Cache(given)


class LocalCacheMachine(RuleBasedStateMachine):
    """Whatever happens: never above the budget, and a hit is what was inserted."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache({"size": "2000"})
        self.inserted: dict[bytes, bytes] = {}

    keys: Any = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f", b"g"])

    @rule(key=keys, parts=st.lists(st.binary(max_size=400), max_size=4))
    def insert(self, key: bytes, parts: list[bytes]) -> None:
        known = self.cache.look_up(key)
        self.cache.insert(key, parts)
        if known is None:
            self.inserted[key] = b"".join(parts)

    @rule(key=keys)
    def look_up(self, key: bytes) -> None:
        found = self.cache.look_up(key)
        assert found is None or found == self.inserted[key]

    @invariant()
    def is_within_its_budget(self) -> None:
        use, entries = self.cache.use, self.cache._entries
        assert 0 <= use.used <= use.capacity
        assert use.entries == len(entries)
        assert use.used == sum(map(len, entries.values())) + 200 * len(entries)
        assert use.hits + use.misses == use.lookups


TestLocalCacheMachine = LocalCacheMachine.TestCase
TestLocalCacheMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
