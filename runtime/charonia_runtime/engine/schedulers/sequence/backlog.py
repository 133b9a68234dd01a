"""Sequences that wait for a slot, and those that have one and stay silent: the two kinds that time may end."""

import heapq
from itertools import count

from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.engine.schedulers.sequence.slots import LiveSequence

_Deadlines = list[tuple[int, int, LiveSequence]]


class Backlog:
    """Sequences without a slot, first come, first served. A timeout of any of its requests ends a sequence."""

    __slots__ = ("_deadlines", "_ties", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[LiveSequence, None] = {}
        self._deadlines: _Deadlines = []
        self._ties = count()

    def append(self, sequence: LiveSequence) -> None:
        self._waiting[sequence] = None

    def limit(self, sequence: LiveSequence, request: InferenceRequest) -> None:
        """Let the timeout of `request`, one of `sequence`, count while it is here."""
        if request.timeout_us:
            deadline = request.queued_ns + request.timeout_us * 1000
            heapq.heappush(self._deadlines, (deadline, next(self._ties), sequence))

    def pop(self) -> LiveSequence:
        """The sequence that has waited longest."""
        first = next(iter(self._waiting))
        del self._waiting[first]
        return first

    def remove(self, sequence: LiveSequence) -> None:
        self._waiting.pop(sequence, None)

    def expire(self, now_ns: int) -> list[LiveSequence]:
        """Remove the sequences that have waited too long."""
        expired: list[LiveSequence] = []
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            sequence = heapq.heappop(self._deadlines)[2]
            if sequence in self._waiting:
                del self._waiting[sequence]
                expired.append(sequence)
        return expired

    def next_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0][2] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    @property
    def request_count(self) -> int:
        return sum(len(sequence.waiting) for sequence in self._waiting)

    def clear(self) -> None:
        self._waiting.clear()
        self._deadlines.clear()

    def __len__(self) -> int:
        return len(self._waiting)


class Silence:
    """
    When sequences with slots will have been silent for too long.

    Each has one entry, which is put right when it comes up: an arrival costs nothing.
    """

    __slots__ = ("_deadlines", "_ties")

    def __init__(self) -> None:
        self._deadlines: _Deadlines = []
        self._ties = count()

    def watch(self, sequence: LiveSequence) -> None:
        """Tell when `sequence.idle_at_ns` is over, unless it is closed by then."""
        heapq.heappush(self._deadlines, (sequence.idle_at_ns, next(self._ties), sequence))

    def take(self, now_ns: int) -> LiveSequence | None:
        """A sequence that was silent for too long; call again for the next."""
        deadline = self.next_deadline()
        return None if deadline is None or deadline > now_ns else heapq.heappop(self._deadlines)[2]

    def next_deadline(self) -> int | None:
        deadlines = self._deadlines
        while deadlines:
            deadline, tie, sequence = deadlines[0]
            if sequence.closed:
                heapq.heappop(deadlines)
            elif sequence.idle_at_ns > deadline:
                heapq.heapreplace(deadlines, (sequence.idle_at_ns, tie, sequence))
            else:
                return deadline
        return None

    def clear(self) -> None:
        self._deadlines.clear()
