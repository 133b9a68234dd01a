"""How often a service that fails may be written about, so that no failure without end fills the API server's store."""

import threading
import time
from collections.abc import Callable

from charonia_operator.naming import Key

_AT_ONCE = 10.0
_SECONDS_EACH = 30.0


class Allowance:
    """Ten writes at once for each key, and two a minute from then on. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[Key, tuple[float, float]] = {}
        """How many writes were left, and when."""

    def wait(self, key: Key, writes: int) -> float:
        """Return 0 where so many writes may be done now, which counts as done; else the seconds until they may be."""
        with self._lock:
            now = self._clock()
            left, since = self._left.get(key, (_AT_ONCE, now))
            left = min(_AT_ONCE, left + (now - since) / _SECONDS_EACH)
            if left < writes:
                self._left[key] = (left, now)
                return (writes - left) * _SECONDS_EACH
            self._left[key] = (left - writes, now)
            return 0.0

    def forget(self, key: Key) -> None:
        """Begin anew: the service is gone, or is another one now."""
        with self._lock:
            self._left.pop(key, None)
