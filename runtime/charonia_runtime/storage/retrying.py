"""Back-off: what a store refuses for now is asked again, later and later."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from charonia_runtime.storage.access import CredentialsFolder
from charonia_runtime.storage.failures import DeniedError, StoppedError, StorageError, UnreachableError

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retries:
    """
    How often and how patiently. `stopping` ends every wait; what was refused is asked again at once where `folder` has
    other credentials by then. `refused` is told the cause and the words of each refusal that is waited out.

    Waits double from `first_seconds` to `most_seconds`, each cut by a random part of its half, so that many servers
    that were refused together do not come back together.
    """

    attempts: int = 8
    give_up_seconds: float = math.inf
    """How long after its first try a call may be tried again."""
    first_seconds: float = 0.5
    most_seconds: float = 20.0
    stopping: threading.Event = field(default_factory=threading.Event)
    folder: CredentialsFolder | None = None
    refused: Callable[[str, str], None] | None = None

    def run(self, call: Callable[[], Result]) -> Result:
        """What `call` returns. Raises its last StorageError, or StoppedError."""
        deadline = time.monotonic() + self.give_up_seconds
        for attempt in range(1, self.attempts):
            self.check()
            used = self.folder.content() if self.folder else None
            try:
                return call()
            except UnreachableError as error:
                if time.monotonic() >= deadline:
                    raise
                self._wait(attempt, error.retry_after_seconds, error)
            except DeniedError as error:
                if self.folder and used and self.folder.changed(used):
                    continue
                if not error.expired:
                    raise
                self._wait(attempt, 0, error)
        self.check()
        return call()

    def check(self) -> None:
        """Raises StoppedError once the process was told to stop."""
        if self.stopping.is_set():
            raise StoppedError("stopped before the copy was complete")

    def _wait(self, attempt: int, asked_seconds: float, error: StorageError) -> None:
        if self.refused:
            self.refused(error.cause, error.message)
        seconds = min(self.first_seconds * 2 ** (attempt - 1), self.most_seconds)
        seconds *= 1 - random.random() / 2  # noqa: S311 - spreads load, hides nothing
        seconds = max(seconds, min(asked_seconds, self.most_seconds))
        # The first failure is told at once: who waits for a start shall know for what.
        level = logging.WARNING if attempt == 1 else logging.DEBUG
        logger.log(level, "trying again in %.1f s: %s", seconds, error.message)
        self.stopping.wait(seconds)
