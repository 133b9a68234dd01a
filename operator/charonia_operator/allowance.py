"""How often something may be said about a service, for what would otherwise be said without end."""

import threading
import time
from collections import deque
from collections.abc import Callable

from charonia_operator.naming import Key

_MOST = 10
_PERIOD_SECONDS = 600.0


class Allowance:
    """Ten times in ten minutes for each key. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: dict[Key, deque[float]] = {}

    def allows(self, key: Key) -> bool:
        """Whether it may be done once more, now; that counts as done."""
        with self._lock:
            now, times = self._clock(), self._times.setdefault(key, deque(maxlen=_MOST))
            if len(times) == _MOST and now - times[0] < _PERIOD_SECONDS:
                return False
            times.append(now)
            return True

    def forget(self, key: Key) -> None:
        """The service is gone."""
        with self._lock:
            self._times.pop(key, None)
