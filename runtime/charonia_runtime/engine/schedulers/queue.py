"""Requests in the order in which they run: priority levels, queue sizes, timeouts (Triton's queue policies)."""

import heapq
import itertools
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from charonia_runtime.core.errors import InferenceError, UnavailableError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import DynamicBatching, QueuePolicy, TimeoutAction

_NO_LIMITS = QueuePolicy()
_SLACK = 64
"""Deadlines of requests that have left which may stay in the heap, and empty levels, before they are cleared away."""

Waiting = OrderedDict[int, InferenceRequest]
"""Requests in order of arrival by their `id`: one leaves from the middle as cheaply as from the front."""


class Rejection(NamedTuple):
    """A request that left its queue without being executed, and what its client is told."""

    request: InferenceRequest
    error: InferenceError


class _Level:
    """One priority level. Requests whose timeout expired under DELAY wait behind the others."""

    __slots__ = ("delayed", "policy", "punctual")

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.punctual: Waiting = OrderedDict()
        self.delayed: Waiting = OrderedDict()

    def __len__(self) -> int:
        return len(self.punctual) + len(self.delayed)


class RequestQueue:
    """
    The waiting requests of a model. Iteration is in the order of execution: levels ascending, first come first served
    inside, expired ones of DELAY policies last in their level.

    A level exists from the first request that names it: a configuration may allow 2^64-1 of them, as Triton does.
    """

    __slots__ = (
        "_deadlines", "_default", "_level_count", "_level_policies", "_levels", "_numbers", "_one_level", "_order",
        "_policy", "_size", "expires",
    )  # fmt: skip

    def __init__(
        self,
        policy: QueuePolicy = _NO_LIMITS,
        *,
        levels: int = 0,
        default_level: int = 0,
        level_policies: Mapping[int, QueuePolicy] | None = None,
    ) -> None:
        """`levels` 0 is a single level under `policy`; otherwise levels count from 1, the most urgent."""
        self._size = 0
        self._policy = policy
        self._level_policies = level_policies or {}
        self._level_count = levels
        self._levels: dict[int, _Level] = {}
        self._order: list[int] = []
        """The numbers of the levels that exist, ascending."""
        self._default = self._level(default_level)
        self._one_level = not levels
        self._deadlines: list[tuple[int, int, int, _Level]] = []
        """A heap of deadlines, which of those came first, whose they are, and the level of that request."""
        self._numbers = itertools.count()
        policies = [self._level_policies.get(default_level, policy), policy, *self._level_policies.values()]
        self.expires = any(each.default_timeout_us for each in (policies if levels else policies[:1]))

    @classmethod
    def of(cls, batching: DynamicBatching) -> "RequestQueue":
        """The queue that a dynamic batcher's configuration describes."""
        return cls(
            batching.default_queue_policy,
            levels=batching.priority_levels,
            default_level=batching.default_priority_level if batching.priority_levels else 0,
            level_policies=batching.priority_queue_policies,
        )

    def push(self, request: InferenceRequest) -> None:
        """Append `request` to its level. Raises UnavailableError when the level is full."""
        level = self._level_of(request)
        policy = level.policy
        if policy.max_queue_size and len(level) >= policy.max_queue_size:
            raise UnavailableError(f"{request.error_prefix}Exceeds maximum queue size")
        level.punctual[id(request)] = request
        self._size += 1
        if policy.default_timeout_us:
            self._set_deadline(request, level)

    def remove(self, request: InferenceRequest) -> bool:
        """Take `request` out, wherever it stands; False when it is not here."""
        level, key = self._level_of(request), id(request)
        if level.punctual.pop(key, None) is None and level.delayed.pop(key, None) is None:
            return False
        self._size -= 1
        return True

    def take(self, count: int) -> list[InferenceRequest]:
        """Remove the first `count` requests (all, if there are fewer)."""
        taken: list[InferenceRequest] = []
        for number in self._order:
            if len(taken) == count:
                break
            level = self._levels[number]
            for waiting in (level.punctual, level.delayed):
                while waiting and len(taken) < count:
                    taken.append(waiting.popitem(last=False)[1])
        self._size -= len(taken)
        return taken

    def expire(self, now_ns: int) -> list[Rejection]:
        """Remove the requests that REJECT policies give up by now; put back those of DELAY policies."""
        rejected: list[Rejection] = []
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now_ns:
            deadline, _, key, level = heapq.heappop(deadlines)
            request = _punctual(level, deadline, key)
            if request is None:
                continue
            del level.punctual[key]
            if level.policy.timeout_action is TimeoutAction.DELAY:
                level.delayed[key] = request
            else:
                self._size -= 1
                rejected.append(Rejection(request, UnavailableError("Request timeout expired")))
        return rejected

    def next_deadline(self) -> int | None:
        """When the next timeout expires."""
        deadlines = self._deadlines
        while deadlines:
            deadline, _, key, level = deadlines[0]
            if _punctual(level, deadline, key) is not None:
                return deadline
            heapq.heappop(deadlines)
        return None

    def __iter__(self) -> Iterator[InferenceRequest]:
        if self._one_level and not self._default.delayed:
            return iter(self._default.punctual.values())
        return self._across_levels()

    def __len__(self) -> int:
        return self._size

    def _across_levels(self) -> Iterator[InferenceRequest]:
        for number in self._order:
            level = self._levels[number]
            yield from level.punctual.values()
            yield from level.delayed.values()

    def _level_of(self, request: InferenceRequest) -> _Level:
        if self._one_level or not 1 <= request.priority <= self._level_count:
            return self._default
        return self._level(request.priority)

    def _level(self, number: int) -> _Level:
        level = self._levels.get(number)
        if level is None:
            level = _Level(self._level_policies.get(number, self._policy))
            if len(self._levels) > 2 * len(self) + _SLACK:
                self._drop_empty_levels()
            self._levels[number] = level
            insort(self._order, number)
        return level

    def _drop_empty_levels(self) -> None:
        """Keep the levels in proportion to the queue, whatever priorities clients name."""
        self._levels = {number: level for number, level in self._levels.items() if len(level) or level is self._default}
        self._order = sorted(self._levels)

    def _set_deadline(self, request: InferenceRequest, level: _Level) -> None:
        """A request's own timeout counts only where it is smaller than the policy's, and neither is 0."""
        policy = level.policy
        timeout_us = policy.default_timeout_us
        if policy.allow_timeout_override and 0 < request.timeout_us < timeout_us:
            timeout_us = request.timeout_us
        request.deadline_ns = request.queued_ns + timeout_us * 1000
        if len(self._deadlines) > 2 * self._size + _SLACK:
            self._forget_stale_deadlines()
        heapq.heappush(self._deadlines, (request.deadline_ns, next(self._numbers), id(request), level))

    def _forget_stale_deadlines(self) -> None:
        """Keep the heap in proportion to the queue: what was executed leaves its entry behind."""
        self._deadlines = [
            (request.deadline_ns, next(self._numbers), key, level)
            for level in self._levels.values()
            if level.policy.default_timeout_us
            for key, request in level.punctual.items()
        ]
        heapq.heapify(self._deadlines)


def _punctual(level: _Level, deadline: int, key: int) -> InferenceRequest | None:
    """
    The request of that deadline, if it still waits.

    An `id` may have been given to a later request; then the deadline differs, or it is that one's as well.
    """
    request = level.punctual.get(key)
    return request if request is not None and request.deadline_ns == deadline else None
