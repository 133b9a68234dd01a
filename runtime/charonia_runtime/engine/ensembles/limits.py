"""`max_inflight_requests`: how much of one step may run at a time, over all requests of its ensemble. Pure."""

from collections import deque
from typing import Protocol

from charonia_runtime.engine.ensembles.propagation import StepRun


class Waiter(Protocol):
    """Whose step runs may have to wait."""

    def admit(self, run: StepRun) -> None:
        """The turn of `run` has come. It counts as running until `StepLimit.leave`."""


class StepLimit:
    """Lets at most `most` executions of one step run; the others wait in their order."""

    __slots__ = ("_admitting", "_most", "_running", "_waiting")

    def __init__(self, most: int) -> None:
        self._most = most
        self._running = 0
        self._waiting: deque[tuple[Waiter, StepRun]] = deque()
        self._admitting = False

    def enter(self, waiter: Waiter, run: StepRun) -> bool:
        """Whether `run` may start now; otherwise its waiter is told later."""
        if self._running >= self._most:
            self._waiting.append((waiter, run))
            return False
        self._running += 1
        return True

    def leave(self) -> None:
        """An execution is over: the next one takes its place."""
        self._running -= 1
        if self._admitting:  # an admitted run was over at once: the loop below goes on
            return
        self._admitting = True
        while self._waiting and self._running < self._most:
            waiter, run = self._waiting.popleft()
            self._running += 1
            waiter.admit(run)
        self._admitting = False

    def forget(self, waiter: Waiter) -> None:
        """Drop everything that waits for `waiter`."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not waiter)
