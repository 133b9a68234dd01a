"""Mutual exclusion by name on one event loop: operations on one model wait for each other, those on others do not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NamedLocks:
    """A lock for each name in use; names that nobody holds or waits for cost nothing."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, *names: str) -> AsyncIterator[None]:
        """Hold all of `names`. Taken in one order everywhere, so two holders never wait for each other."""
        wanted = sorted(set(names))
        for name in wanted:
            lock, users = self._locks.get(name, (asyncio.Lock(), 0))
            self._locks[name] = (lock, users + 1)
        held: list[asyncio.Lock] = []
        try:
            for name in wanted:
                lock = self._locks[name][0]
                await lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()
            for name in wanted:
                lock, users = self._locks[name]
                if users == 1:
                    del self._locks[name]
                else:
                    self._locks[name] = (lock, users - 1)

    def busy(self, name: str) -> bool:
        """Whether somebody holds or waits for `name`."""
        return name in self._locks
