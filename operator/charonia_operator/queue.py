"""
The work queue: each key at most once at a time, coalesced while it waits, and later and later while it fails.

Where there is more to do than workers, what somebody waits for is done first.
"""

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from charonia_operator.naming import Key

_FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 300.0


class Need(Enum):
    """Why a pass is wanted. The value is for how many seconds it stands back behind more pressing ones."""

    CHANGE = 0.0
    """Somebody has created, edited or deleted the service."""
    NEWS = 30.0
    """Something has happened to what belongs to it."""
    ROUTINE = 300.0
    """It is time for another look; or the pass before failed."""


@dataclass(frozen=True, slots=True)
class _Plan:
    due: float
    rank: float
    """Of those that are due, the one with the lowest comes first."""

    def joined(self, other: "_Plan") -> "_Plan":
        return _Plan(min(self.due, other.due), min(self.rank, other.rank))


class WorkQueue:
    """Safe to use from several threads. `take` and `done` are a worker's, the rest is everybody's."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._changed = threading.Condition()
        self._plans: dict[Key, _Plan] = {}
        self._waiting: list[tuple[float, int, Key, _Plan]] = []
        self._ready: list[tuple[float, int, Key, _Plan]] = []
        self._running: set[Key] = set()
        self._again: dict[Key, Need] = {}
        self._failures: dict[Key, int] = {}
        self._order = itertools.count()
        self._stopped = False

    def add(self, key: Key, after: float = 0.0, need: Need = Need.NEWS) -> None:
        """Ask for a pass, `after` seconds from now or when one was asked for already, whichever comes first."""
        with self._changed:
            if key in self._running and after <= 0:
                self._ask_again(key, need)
            else:
                self._schedule(key, self._clock() + after, need)

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
            need = self._again.pop(key, None)
            if need:
                self._schedule(key, self._clock(), need)
            elif after is not None:
                self._schedule(key, self._clock() + after, Need.ROUTINE)

    def stop(self) -> None:
        """Wake all workers; `take` gives None from now on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _ask_again(self, key: Key, need: Need) -> None:
        self._again[key] = min(need, self._again.get(key, need), key=lambda each: each.value)

    def _schedule(self, key: Key, due: float, need: Need) -> None:
        plan, known = _Plan(due, due + need.value), self._plans.get(key)
        plan = known.joined(plan) if known else plan
        if plan != known:
            self._plans[key] = plan
            heapq.heappush(self._waiting, (plan.due, next(self._order), key, plan))
            self._changed.notify()

    def _next(self) -> tuple[Key | None, float | None]:
        """A key that is due, or how long to wait for one (None: until something is added)."""
        now = self._clock()
        while self._waiting and self._waiting[0][0] <= now:
            _, order, key, plan = heapq.heappop(self._waiting)
            if self._plans.get(key) == plan:  # else another plan has taken its place
                heapq.heappush(self._ready, (plan.rank, order, key, plan))
        while self._ready:
            _, _, key, plan = heapq.heappop(self._ready)
            if self._plans.get(key) != plan:
                continue
            del self._plans[key]
            if key not in self._running:
                return key, None
            self._ask_again(key, Need.NEWS)
        return None, self._waiting[0][0] - now if self._waiting else None
