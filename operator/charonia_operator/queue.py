"""The work queue: each key at most once at a time, coalesced while it waits, and later and later while it fails."""

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable

from charonia_operator.naming import Key

_FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 300.0


class WorkQueue:
    """Safe to use from several threads. `take` and `done` are a worker's, the rest is everybody's."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._changed = threading.Condition()
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._order = itertools.count()
        self._stopped = False

    def add(self, key: Key, after: float = 0.0) -> None:
        """Ask for a pass, `after` seconds from now or when one was asked for already, whichever comes first."""
        with self._changed:
            if key in self._running and after <= 0:
                self._again.add(key)
            else:
                self._schedule(key, self._clock() + after)

    def take(self, *, wait: bool = True) -> Key | None:
        """The next key that is due. None when the queue has stopped or, without `wait`, when none is due now."""
        with self._changed:
            while not self._stopped:
                key, pause = self._next()
                if key is not None:
                    self._running.add(key)
                    return key
                if not wait:
                    return None
                self._changed.wait(pause)
        return None

    def done(
        self, key: Key, *, failed: bool = False, after: float | None = None, longest: float = LONGEST_RETRY_SECONDS
    ) -> None:
        """
        A pass over `key` is over. `after`: another one is wanted in so many seconds.

        One that failed is tried again, after pauses that double up to `longest` seconds.
        """
        with self._changed:
            self._running.discard(key)
            if failed:
                count = self._failures[key] = self._failures.get(key, 0) + 1
                pause = min(_FIRST_RETRY_SECONDS * 2.0 ** min(count - 1, 30), longest)
                after = pause * (1 + 0.2 * self._jitter())
            else:
                self._failures.pop(key, None)
            if key in self._again:
                self._again.discard(key)
                after = 0.0
            if after is not None:
                self._schedule(key, self._clock() + after)

    def stop(self) -> None:
        """Wake all workers; `take` gives None from now on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _schedule(self, key: Key, due: float) -> None:
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))
            self._changed.notify()

    def _next(self) -> tuple[Key | None, float | None]:
        """A key that is due, or how long to wait for one (None: until something is added)."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:
                heapq.heappop(self._heap)  # brought forward since
                continue
            if due > self._clock():
                return None, due - self._clock()
            heapq.heappop(self._heap)
            del self._due[key]
            if key in self._running:
                self._again.add(key)
                continue
            return key, None
        return None, None
