"""How long a model that is unloaded may be silent before it is given up."""

import asyncio
from collections.abc import Callable


def _nothing() -> None:
    """For one that watches nothing any more."""


class Patience:
    """
    Watches one instance from `start` to `stop`.

    `give_up` is called, once, when the instance owed an answer for all of the time and was not heard of: then it lies
    between that time and twice as much. `owes` tells whether it owes one now.
    """

    def __init__(self, seconds: float, owes: Callable[[], bool], give_up: Callable[[], None]) -> None:
        """With 0 `seconds` it waits for ever."""
        self.heard = False
        """To be set with each sign of life."""
        self._seconds = seconds
        self._owes: Callable[[], object] = owes
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on the instance is watched. May be called again."""
        if self._timer is None and self._seconds:
            self.heard = not self._owes()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._owes = self._give_up = _nothing  # whom they led to need not wait for a collection

    def _look(self) -> None:
        self._timer = None
        if self._owes() and not self.heard:
            self._give_up()
        else:
            self.start()
