"""How a client that reads slowly holds a model back that runs in another process than its frontend."""

from collections import deque
from collections.abc import Callable
from typing import Final

_WINDOW: Final = 8
_WINDOW_BYTES: Final = 1 << 18


class RemoteFlow:
    """
    Implements `core.request.ResponseFlow` where the model runs.

    The frontend's process says for each response that its client has room for the next. A few small ones may be on
    their way meanwhile: else every response would wait for a round trip between the processes.
    """

    __slots__ = ("_bytes", "_closed", "_sent", "_waiting")

    def __init__(self) -> None:
        self._sent: deque[int] = deque()
        """Bytes of the responses of which the frontend has said nothing yet."""
        self._bytes = 0
        self._waiting: list[Callable[[], None]] = []
        self._closed = False

    def when_ready(self, resume: Callable[[], None]) -> None:
        if self._has_room:
            resume()
        else:
            self._waiting.append(resume)

    def sent(self, size: int) -> None:
        """A response with so many bytes of tensors, not the last one, has left."""
        self._sent.append(size)
        self._bytes += size

    def taken(self) -> None:
        """The client has room for one more."""
        if self._sent:
            self._bytes -= self._sent.popleft()
        if self._has_room:
            self._resume()

    def close(self) -> None:
        """Nobody reads any more: the model is held back no longer."""
        self._closed = True
        self._resume()

    @property
    def _has_room(self) -> bool:
        return self._closed or not self._sent or (len(self._sent) < _WINDOW and self._bytes < _WINDOW_BYTES)

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()
