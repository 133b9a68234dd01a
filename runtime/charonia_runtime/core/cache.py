"""The seam to response caches: what a cache must do, and what the metrics show of one."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class CacheUse:
    """What happened to a cache so far. Durations are nanoseconds, sizes bytes."""

    capacity: int
    used: int = 0
    entries: int = 0
    lookups: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    lookup_ns: int = 0
    insertion_ns: int = 0


class ResponseCache(Protocol):
    """
    Keeps answers by key; both are bytes. Used on the event loop's thread.

    Constructed as `Cache(settings)`, with the settings of `--cache-config` as text. It may forget whatever it likes
    whenever it likes, but never gives out anything else than what was inserted under that key.
    """

    use: CacheUse | None
    """What the metrics show; None where the cache is not this server's own."""

    async def start(self) -> None:
        """Connect. Raises InferenceError when the cache cannot be used at all."""

    def look_up(self, key: bytes) -> bytes | Awaitable[bytes | None] | None:
        """What was inserted under `key`: at once where it is at hand, else to be awaited. Never raises."""

    def insert(self, key: bytes, parts: Sequence[bytes | memoryview]) -> None:
        """Keep a copy of `parts`, joined, unless there is something under `key` already. Never raises."""

    async def close(self) -> None:
        """Let go of connections. What was begun may be left undone."""


class CacheFactory(Protocol):
    """The class `Cache` of a module of `engine/caches/`. Raises InvalidArgumentError for settings that are wrong."""

    def __call__(self, settings: dict[str, str]) -> ResponseCache: ...
