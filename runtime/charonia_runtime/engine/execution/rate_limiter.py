"""
Who may run when instances share resources: a budget for the whole server, and turns by priority.

A state machine without I/O or time. Instances ask for a turn; `serve` grants turns, best rank first. A rank is how
many executions an instance has had, times its priority; nobody is passed by while the best one lacks resources, so
that large instances are not starved by small ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from charonia_runtime.core.config import Placement, RateLimiterResource
from charonia_runtime.core.errors import InvalidArgumentError


class Resource(NamedTuple):
    """What is counted. `device` is None for what is counted once a server."""

    name: str
    device: int | None


@dataclass(frozen=True, slots=True)
class ResourceLimit:
    """One `--rate-limit-resource`: how much there is on `device`, or on every device where that is None."""

    name: str
    count: int
    device: int | None = None


@dataclass(slots=True, eq=False)
class Contender:
    """One instance that takes turns, as its model's flow knows it. All but the first three is the limiter's own."""

    needs: Mapping[Resource, int]
    granted: Callable[[], bool]
    """
    Is called when the instance may run: it runs, or returns False when there is nothing for it.

    It may ask and withdraw, but not wait for anything.
    """
    priority: int = 1
    """Instances of priority 2 get half as many turns as those of priority 1; 0 is as good as 1."""
    rank: int = field(default=0, init=False)
    waits: bool = field(default=False, init=False)
    holds: bool = field(default=False, init=False)
    leaving: bool = field(default=False, init=False)
    asking: int = field(default=0, init=False)
    """The number of its last asking."""


class RateLimiter:
    """
    The budget and the queue of those who want a part of it. Used on the event loop's thread.

    Without limits there is of each resource as much as the greediest single instance needs.
    """

    def __init__(self, limits: Sequence[ResourceLimit] = ()) -> None:
        self._limits = limits
        self._contenders: set[Contender] = set()
        self._queue: list[tuple[int, int, Contender]] = []
        self._asked = 0
        self._used: dict[Resource, int] = {}
        self._reached = 0
        """The rank that was granted a turn last: who comes new, or back, starts there instead of catching up."""
        self._serving = False

    # --- who takes part ---

    def check(self, placements: Iterable[Placement]) -> None:
        """Raises InvalidArgumentError, Triton's texts, when instances like these could never run."""
        for placement in placements:
            self._refuse_ambiguous(placement)
            needs = needs_of(placement)
            for needed in placement.resources:
                count = needs[_resource(needed, placement)]
                available = self._limit(_resource(needed, placement)) if self._limits else count
                if available < count:
                    raise InvalidArgumentError(
                        f'Resource count for "{needed.name}" is limited to {available} which will prevent scheduling '
                        f"of one or more model instances, the minimum required count is {count}"
                    )

    def add(self, contender: Contender) -> None:
        contender.rank = self._reached
        self._contenders.add(contender)

    def remove(self, contender: Contender) -> None:
        """It asks no more. What it holds it still has to release."""
        contender.waits = False
        if not contender.holds:
            self._contenders.discard(contender)
        contender.leaving = True

    # --- turns ---

    def ask(self, contender: Contender) -> None:
        """It wants a turn; asking again changes nothing. Others wait behind it until `serve`."""
        if contender.waits or contender.holds:
            return
        contender.waits = True
        contender.rank = max(contender.rank, self._reached)
        self._asked += 1
        contender.asking = self._asked
        heappush(self._queue, (contender.rank, self._asked, contender))

    def withdraw(self, contender: Contender) -> None:
        """It does not want its turn any more."""
        contender.waits = False

    def release(self, contender: Contender) -> None:
        """It has run: what it held is free. Call `serve` when everyone concerned has asked."""
        if not contender.holds:
            return
        self._give_back(contender)
        if contender.leaving:
            self._contenders.discard(contender)

    def serve(self) -> None:
        """Grant turns for as long as the best rank finds what it needs."""
        if self._serving:
            return
        self._serving = True
        try:
            while (contender := self._next()) is not None:
                self._take(contender)
                if contender.granted():
                    self._reached = max(self._reached, contender.rank)
                    contender.rank += max(contender.priority, 1)
                else:
                    self._give_back(contender)
        finally:
            self._serving = False

    def available(self, resource: Resource) -> int:
        """How much there is of it, in use or not."""
        if self._limits:
            return self._limit(resource)
        return max((contender.needs.get(resource, 0) for contender in self._contenders), default=0)

    def used(self) -> Mapping[Resource, int]:
        """What is held now."""
        return self._used

    # --- inside ---

    def _next(self) -> Contender | None:
        """The best rank, off the queue, if there is enough for it."""
        queue = self._queue
        while queue:
            _, number, contender = queue[0]
            if contender.waits and contender.asking == number:
                if not self._suffices(contender):
                    return None
                heappop(queue)
                contender.waits = False
                return contender
            heappop(queue)
        return None

    def _suffices(self, contender: Contender) -> bool:
        used = self._used
        return all(
            used.get(resource, 0) + count <= self.available(resource) for resource, count in contender.needs.items()
        )

    def _take(self, contender: Contender) -> None:
        contender.holds = True
        for resource, count in contender.needs.items():
            self._used[resource] = self._used.get(resource, 0) + count

    def _give_back(self, contender: Contender) -> None:
        contender.holds = False
        for resource, count in contender.needs.items():
            self._used[resource] -= count

    def _limit(self, resource: Resource) -> int:
        """What the command line says; nothing of what it does not name."""
        named = [limit for limit in self._limits if limit.name.lower() == resource.name]
        if resource.device is None:
            return max((limit.count for limit in named), default=0)
        exact = [limit.count for limit in named if limit.device == resource.device]
        return (exact or [limit.count for limit in named if limit.device is None] or [0])[-1]

    def _refuse_ambiguous(self, placement: Placement) -> None:
        known = {*needs_of(placement), *(resource for other in self._contenders for resource in other.needs)}
        for needed in placement.resources:
            own = _resource(needed, placement)
            if any(one.name == own.name and (one.device is None) != (own.device is None) for one in known):
                raise InvalidArgumentError(
                    f'Resource "{needed.name}" is present as both global and device-specific resource in the model '
                    "configuration."
                )


def needs_of(placement: Placement) -> dict[Resource, int]:
    """What the instance holds while it runs; names do not differ by case."""
    needs: dict[Resource, int] = {}
    for needed in placement.resources:
        resource = _resource(needed, placement)
        needs[resource] = max(needs.get(resource, 0), needed.count)
    return needs


def _resource(needed: RateLimiterResource, placement: Placement) -> Resource:
    return Resource(needed.name.lower(), None if needed.is_global else placement.device_id)
