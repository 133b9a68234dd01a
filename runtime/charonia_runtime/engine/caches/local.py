"""The cache in this process's memory: as many bytes as it was given, the least recently used entries leave first."""

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

_ENTRY_BYTES: Final = 200
"""What an entry takes besides its bytes: a key, two object headers, a place in the table."""


class Cache:
    """See `core.cache.ResponseCache`. The setting is `size`, in bytes."""

    def __init__(self, settings: dict[str, str]) -> None:
        """Raises InvalidArgumentError without a sensible `size`, Triton's words."""
        text = settings.get("size", "")
        if not (text.isascii() and text.isdecimal()):
            raise InvalidArgumentError(
                "Failed to initialize LocalCache: config didn't contain a valid 'size' field."
                + (f" Expected a number of bytes, got '{text}'" if text else "")
            )
        self.use = CacheUse(capacity=int(text))
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()

    async def start(self) -> None:
        """Nothing to connect to."""

    def look_up(self, key: bytes) -> bytes | None:
        begin_ns = time.perf_counter_ns()
        use = self.use
        entry = self._entries.get(key)
        use.lookups += 1
        if entry is None:
            use.misses += 1
        else:
            use.hits += 1
            self._entries.move_to_end(key)
        use.lookup_ns += time.perf_counter_ns() - begin_ns
        return entry

    def insert(self, key: bytes, parts: Sequence[bytes | memoryview]) -> None:
        begin_ns = time.perf_counter_ns()
        use = self.use
        size = _ENTRY_BYTES + sum(memoryview(part).nbytes for part in parts)
        if size > use.capacity:
            logger.error("a response of %d bytes does not fit the response cache of %d bytes", size, use.capacity)
            return
        if key in self._entries:
            return
        while use.used + size > use.capacity:
            self._evict()
        self._entries[key] = b"".join(parts)
        use.used += size
        use.entries += 1
        use.insertion_ns += time.perf_counter_ns() - begin_ns

    async def close(self) -> None:
        self._entries.clear()
        self.use.used = self.use.entries = 0

    def _evict(self) -> None:
        _, entry = self._entries.popitem(last=False)
        self.use.used -= _ENTRY_BYTES + len(entry)
        self.use.entries -= 1
        self.use.evictions += 1
