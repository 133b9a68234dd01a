"""How far a copy is: counted by the threads that fetch, read by whoever shows it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Counts:
    """A moment of a copy. `fetched_bytes` came from the store in this pass; `bytes_done` also counts what was there."""

    phase: str = "Starting"
    objects: int = 0
    objects_done: int = 0
    bytes: int = 0
    bytes_done: int = 0
    fetched_bytes: int = 0
    seconds: float = 0

    @property
    def bytes_per_second(self) -> float:
        return self.fetched_bytes / self.seconds if self.seconds > 0 else 0.0

    def text(self) -> str:
        """`Downloading 12.4/80.0 GiB, 17/204 objects, 310.0 MiB/s`."""
        if self.phase != "Downloading":
            return self.phase
        return (
            f"{self.phase} {size_text(self.bytes_done)}/{size_text(self.bytes)}, "
            f"{self.objects_done}/{self.objects} objects, {size_text(self.bytes_per_second)}/s"
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A store that does not answer and is asked again: the cause, in words, and for how long that has lasted."""

    cause: str
    message: str
    seconds: float


class Progress:
    """Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._refused: tuple[str, str, float] | None = None
        self._since = self._moved_at = clock()

    def enter(self, phase: str, **totals: int) -> None:
        """A new phase begins, with what is known of it: fields of `Counts`."""
        with self._lock:
            if phase == "Listing":
                self._values.clear()
            if phase == "Downloading":
                self._since = self._moved_at = self._clock()
            self._values.update(totals, phase=phase)
            self._refused = None

    def add(self, *, objects: int = 0, received: int = 0) -> None:
        """So many objects are whole, so many bytes arrived."""
        with self._lock:
            self._moved_at = self._clock()
            self._refused = None
            for name, more in (("objects_done", objects), ("bytes_done", received), ("fetched_bytes", received)):
                self._values[name] = self._values.get(name, 0) + more

    def take_back(self, received: int) -> None:
        """Bytes that arrived turned out useless."""
        with self._lock:
            self._values["bytes_done"] = self._values.get("bytes_done", 0) - received

    def refuse(self, cause: str, message: str) -> None:
        """The store does not answer, and will be asked again. Holds until something arrives or a phase begins."""
        with self._lock:
            since = self._refused[2] if self._refused else self._clock()
            self._refused = (cause, message, since)

    def refusal(self) -> Refusal | None:
        """What the store is asked again for; None while it answers."""
        with self._lock:
            if self._refused is None:
                return None
            cause, message, since = self._refused
            return Refusal(cause, message, self._clock() - since)

    def idle_seconds(self) -> float:
        """How long nothing has happened."""
        return self._clock() - self._moved_at

    def counts(self) -> Counts:
        with self._lock:
            return Counts(**self._values, seconds=self._clock() - self._since)


def size_text(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1024
    return f"{size:.1f} TiB"
