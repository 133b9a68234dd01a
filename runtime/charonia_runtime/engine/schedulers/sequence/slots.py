"""Sequences, and the slots of an instance that they occupy from their first request to their last."""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.states import SequenceStates
from charonia_runtime.core.tensor import Tensor


class LiveSequence:
    """
    A sequence from its START until nothing of it is left.

    Its requests wait in `waiting`; one at a time is `current`: it may run, or runs already. A sequence that is `closed`
    takes no more requests and is over when those that it has are.
    """

    __slots__ = (
        "closed", "controls", "correlation_id", "current", "idle_at_ns", "instance", "running", "slot", "states",
        "waiting",
    )  # fmt: skip

    def __init__(self, correlation_id: int | str, controls: Mapping[str, Tensor]) -> None:
        self.correlation_id = correlation_id
        self.controls = controls
        self.waiting = deque[InferenceRequest]()
        self.current: InferenceRequest | None = None
        self.running = False
        self.closed = False
        self.idle_at_ns = 0
        self.states = SequenceStates()
        self.instance: InstanceSlots | None = None
        """Where the sequence has its slot; None while it waits in the backlog, and when it is over."""
        self.slot = -1

    @property
    def is_idle(self) -> bool:
        """Whether it has a slot but no request that waits or runs."""
        return self.instance is not None and self.current is None and not self.waiting


class Selector(Protocol):
    """Decides which sequences of one instance run together: a strategy's rules."""

    def add(self, sequence: LiveSequence) -> None:
        """The current request of `sequence` may run."""

    def withdraw(self, sequence: LiveSequence) -> None:
        """The current request of `sequence` will not run after all."""

    def take(self, now_ns: int) -> Sequence[LiveSequence | None]:
        """
        The sequences whose current requests run now, together; empty when the instance should wait.

        None stands for a null request.
        """

    def wake_at(self) -> int | None:
        """When `take` may give more than it did, if nothing is added."""


class InstanceSlots:
    """The slots of one instance, `number`. A retired one gets no more sequences."""

    __slots__ = ("_fresh", "_used", "capacity", "number", "occupied", "retired", "running", "selector")

    def __init__(self, number: int, capacity: int, selector: Selector) -> None:
        self.number = number
        self.capacity = capacity
        self.selector = selector
        self.occupied = 0
        self.retired = False
        self.running: Sequence[LiveSequence | None] = ()
        """The sequences of the batch that runs, by the places of their requests in it; None for null requests."""
        self._used: list[int] = []
        self._fresh = 0

    @property
    def lowest_free(self) -> int | None:
        """The slot that the next sequence gets; None when there is none."""
        if self.retired or self.occupied == self.capacity:
            return None
        return self._used[0] if self._used else self._fresh

    def seat(self, sequence: LiveSequence) -> None:
        """Give `sequence` the lowest free slot."""
        if self._used:
            sequence.slot = heapq.heappop(self._used)
        else:
            sequence.slot = self._fresh
            self._fresh += 1
        sequence.instance = self
        self.occupied += 1

    def release(self, sequence: LiveSequence) -> None:
        """Take the slot of `sequence` back."""
        heapq.heappush(self._used, sequence.slot)
        sequence.instance = None
        self.occupied -= 1
