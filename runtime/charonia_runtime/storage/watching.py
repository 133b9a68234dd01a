"""Keeping a copy in line with a store that changes: look, let it settle, copy; what is live outlasts every failure."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from charonia_runtime.storage.failures import ChurningError, StoppedError, StorageError
from charonia_runtime.storage.mirror import Mirror, Outcome

logger = logging.getLogger(__name__)

_ROUNDS = 10
"""Looks at a store that never stops changing, before that is reported."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two looks, and how long a changed store must stay as it is before it is copied."""

    interval_seconds: float = 60
    settle_seconds: float = 5


class Watch:
    """Runs passes until told to stop. `succeeded` and `failed` hear of each pass."""

    def __init__(
        self,
        mirror: Mirror,
        pace: Pace,
        stopping: threading.Event,
        succeeded: Callable[[Outcome], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        self._mirror = mirror
        self._pace = pace
        self._stopping = stopping
        self._succeeded = succeeded
        self._failed = failed

    def run(self) -> None:
        """Returns once `stopping` is set."""
        while not self._stopping.wait(self._pace.interval_seconds * random.uniform(0.9, 1.1)):  # noqa: S311
            try:
                self._settle()
                self._succeeded(self._mirror.sync())
            except StoppedError:
                return
            except StorageError as error:
                self._failed(error)

    def _settle(self) -> None:
        """Wait until the store looks the same twice, so that half an upload is not copied. Raises StorageError."""
        seen = self._mirror.look()
        if self._mirror.is_live(seen):
            return
        for _ in range(_ROUNDS):
            if self._stopping.wait(self._pace.settle_seconds):
                raise StoppedError("stopped while the store settled")
            now = self._mirror.look()
            if now == seen:
                return
            seen = now
        raise ChurningError(f"the store changed at every one of {_ROUNDS} looks; what is live stays")
