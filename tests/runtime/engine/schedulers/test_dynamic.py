"""Dynamic batching: Triton's sizes and delays, the rules of likeness, and what must hold whatever happens."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import DynamicBatching, QueuePolicy, TimeoutAction
from charonia_runtime.engine.schedulers.dynamic import DynamicScheduler
from tests.support.configs import a_config, a_tensor
from tests.support.requests import a_request

MS = 1_000_000
DELAY_US = 500_000


FIXED = (a_tensor("A"),)


def a_scheduler(*, inputs=FIXED, maximum=8, strategy=None, **batching):
    scheduling = DynamicBatching(**batching)
    config = a_config("m", inputs=inputs, max_batch_size=maximum, scheduling=scheduling)
    return DynamicScheduler(config, scheduling, strategy)


def enqueue(scheduler, *sizes, now=0, **fields):
    requests = [a_request(batch_size=size, queued_ns=now, **fields) for size in sizes]
    for request in requests:
        scheduler.enqueue(request)
    return requests


def rows(batch):
    return [request.batch_size for request in batch]


def run_all(scheduler, now=0):
    """The batches that an instance gets that is always idle."""
    batches = []
    while batch := scheduler.next_batch(now, 0):
        batches.append(rows(batch))
    return batches


# Rows that wait when an instance becomes free at time 0 → the batches it gets, then those after the delay.
@pytest.mark.parametrize(
    ("batching", "waiting", "at_once", "after_delay"),
    [
        ({}, [1] * 20, [[1] * 8, [1] * 8, [1] * 4], []),
        ({}, [3, 3, 3], [[3, 3], [3]], []),
        ({}, [1], [[1]], []),
        ({}, [5, 8, 1], [[5], [8], [1]], []),
        ({"preferred_batch_sizes": (4,)}, [1] * 9, [[1] * 4, [1] * 4, [1]], []),
        ({"preferred_batch_sizes": (4,)}, [3, 3, 3], [[3, 3], [3]], []),
        ({"preferred_batch_sizes": (2, 6)}, [8], [[8]], []),
        ({"max_queue_delay_us": DELAY_US, "preferred_batch_sizes": (4,)}, [1] * 3, [], [[1] * 3]),
        ({"max_queue_delay_us": DELAY_US, "preferred_batch_sizes": (4,)}, [1] * 5, [[1] * 4], [[1]]),
        ({"max_queue_delay_us": DELAY_US, "preferred_batch_sizes": (4,)}, [3, 3], [[3]], [[3]]),
        ({"max_queue_delay_us": DELAY_US, "preferred_batch_sizes": (2, 6)}, [8], [[8]], []),
        ({"max_queue_delay_us": DELAY_US, "preferred_batch_sizes": (2, 6)}, [1] * 9, [[1] * 6, [1] * 2], [[1]]),
        ({"max_queue_delay_us": DELAY_US}, [1] * 3, [], [[1] * 3]),
        ({"max_queue_delay_us": DELAY_US}, [1] * 8, [[1] * 8], []),
        ({"max_queue_delay_us": DELAY_US}, [4, 5], [[4]], [[5]]),
    ],
)
def test_what_runs_together(batching, waiting, at_once, after_delay):
    scheduler = a_scheduler(**batching)
    enqueue(scheduler, *waiting)
    assert run_all(scheduler) == at_once
    if after_delay:
        assert scheduler.wake_at(idle=True) == DELAY_US * 1000
        assert run_all(scheduler, DELAY_US * 1000 - 1) == []
        assert run_all(scheduler, DELAY_US * 1000) == after_delay
    assert len(scheduler) == 0
    assert scheduler.wake_at(idle=True) is None


def test_one_by_one():
    """preferred [2,6]: 5 requests one by one make 2, 2 and, after its own delay, 1."""
    scheduler = a_scheduler(preferred_batch_sizes=(2, 6), max_queue_delay_us=DELAY_US)
    batches = []
    for now in range(5):
        enqueue(scheduler, 1, now=now)
        batches += run_all(scheduler, now)
    assert batches == [[1, 1], [1, 1]]
    assert scheduler.wake_at(idle=True) == 4 + DELAY_US * 1000
    assert run_all(scheduler, 4 + DELAY_US * 1000) == [[1]]


def test_what_waited_for_an_instance_beyond_the_delay_runs_at_once():
    """preferred [4], busy for longer than the delay, 6 arrive: one batch of 6."""
    scheduler = a_scheduler(preferred_batch_sizes=(4,), max_queue_delay_us=DELAY_US)
    enqueue(scheduler, *[1] * 6)
    assert scheduler.wake_at(idle=False) is None
    assert run_all(scheduler, DELAY_US * 1000) == [[1] * 6]


def test_without_batching_requests_run_alone():
    scheduler = a_scheduler(maximum=0, max_queue_delay_us=DELAY_US)
    enqueue(scheduler, 1, 1)
    assert run_all(scheduler) == [[1], [1]]
    assert not scheduler.collects


def test_batches_may_span_levels():
    scheduler = a_scheduler(maximum=4, priority_levels=2, default_priority_level=2)
    waiting = [enqueue(scheduler, 1, priority=p)[0] for p in (2, 2, 1, 2, 1, 2)]
    assert scheduler.next_batch(0, 0) == [waiting[2], waiting[4], waiting[0], waiting[1]]
    assert scheduler.next_batch(0, 0) == [waiting[3], waiting[5]]


def test_the_delay_counts_from_the_oldest_of_any_level():
    scheduler = a_scheduler(priority_levels=2, default_priority_level=2, max_queue_delay_us=DELAY_US)
    enqueue(scheduler, 1, now=0, priority=2)
    enqueue(scheduler, 1, now=5, priority=1)
    assert scheduler.next_batch(5, 0) == []
    assert scheduler.wake_at(idle=True) == DELAY_US * 1000


def test_timeouts_are_told_even_while_every_instance_is_busy():
    scheduler = a_scheduler(default_queue_policy=QueuePolicy(default_timeout_us=10))
    (request,) = enqueue(scheduler, 1)
    assert scheduler.expires
    assert scheduler.wake_at(idle=False) == 10_000
    assert [rejection.request for rejection in scheduler.expire(10_000)] == [request]


def shaped(scheduler, *shapes, name="A"):
    requests = [a_request("m", {name: np.zeros((1, *shape), np.int32)}) for shape in shapes]
    for request in requests:
        scheduler.enqueue(request)
    return requests


def test_variable_inputs_must_have_the_shape_of_the_first():
    scheduler = a_scheduler(inputs=(a_tensor("A", DataType.INT32, -1),))
    requests = shaped(scheduler, (2,), (2,), (3,), (2,))
    assert [scheduler.next_batch(0, 0) for _ in range(3)] == [requests[:2], requests[2:3], requests[3:]]


def test_a_misfit_ends_the_wait():
    scheduler = a_scheduler(inputs=(a_tensor("A", DataType.INT32, -1),), max_queue_delay_us=DELAY_US)
    requests = shaped(scheduler, (2,), (3,))
    assert scheduler.next_batch(0, 0) == requests[:1]
    assert scheduler.next_batch(0, 0) == []


@pytest.mark.parametrize(
    "spec", [a_tensor("A", DataType.INT32, -1, allow_ragged=True), a_tensor("A", DataType.INT32, 2)]
)
def test_other_inputs_are_not_looked_at(spec):
    scheduler = a_scheduler(inputs=(spec,))
    requests = shaped(scheduler, (2,), (3,))
    assert scheduler.next_batch(0, 0) == requests


def test_optional_inputs_must_be_the_same():
    scheduler = a_scheduler(inputs=(a_tensor("A", optional=True), a_tensor("B", optional=True)))
    requests = [*shaped(scheduler, (16,)), *shaped(scheduler, (16,), (16,), name="B")]
    assert scheduler.next_batch(0, 0) == requests[:1]
    assert scheduler.next_batch(0, 0) == requests[1:]


def test_shape_tensors_must_be_equal():
    scheduler = a_scheduler(inputs=(a_tensor("A", DataType.INT32, 1, is_shape_tensor=True),))
    requests = [a_request("m", {"A": np.array([value], np.int32)}) for value in (7, 7, 8)]
    for request in requests:
        scheduler.enqueue(request)
    assert scheduler.next_batch(0, 0) == requests[:2]
    assert scheduler.next_batch(0, 0) == requests[2:]


class Volume:
    """A strategy: no more bytes in a batch than `most`."""

    def __init__(self, most):
        self.most = most
        self.volume = None
        self.batches = 0

    def initialize(self):
        assert self.volume is None
        self.volume = 0

    def include(self, request):
        self.volume += request.inputs["A"].byte_size
        return self.volume <= self.most

    def finalize(self):
        self.volume = None
        self.batches += 1


def test_a_strategy_makes_batches_smaller():
    scheduler = a_scheduler(inputs=(a_tensor("A", DataType.INT32, -1, allow_ragged=True),), strategy=Volume(40))
    requests = shaped(scheduler, (4,), (6,), (1,), (20,), (1,))
    batches = [scheduler.next_batch(0, 0) for _ in range(4)]
    assert batches == [requests[:2], requests[2:3], requests[3:4], requests[4:]]


def test_what_a_strategy_ends_waits_no_longer():
    strategy = Volume(40)
    scheduler = a_scheduler(strategy=strategy, max_queue_delay_us=DELAY_US)
    requests = shaped(scheduler, (6,))
    assert scheduler.next_batch(0, 0) == []
    requests += shaped(scheduler, (6,))
    assert scheduler.next_batch(0, 0) == requests[:1]
    assert scheduler.next_batch(0, 0) == []
    assert scheduler.next_batch(DELAY_US * 1000, 0) == requests[1:]
    assert strategy.batches == 4


def test_a_strategy_cannot_make_batches_larger():
    scheduler = a_scheduler(strategy=Volume(1 << 30), maximum=4)
    shaped(scheduler, *[(1,)] * 5)
    assert run_all(scheduler) == [[1] * 4, [1]]


class Batching(RuleBasedStateMachine):
    """Arrivals, cancellations, time and one instance, in any order."""

    @initialize(
        maximum=st.integers(1, 9),
        preferred=st.sets(st.integers(1, 9), max_size=3),
        delay=st.sampled_from([0, 5, 40]),
        levels=st.integers(0, 3),
        timeout=st.sampled_from([0, 20]),
        action=st.sampled_from(TimeoutAction),
        variable=st.booleans(),
        strategy=st.sampled_from([None, Volume(1), Volume(24), Volume(1 << 30)]),
    )
    def start(self, *, maximum, preferred, delay, levels, timeout, action, variable, strategy):
        self.maximum = maximum
        self.now = 0
        self.delay_ns = delay * 1000
        self.rejects = timeout * 1000 if action is TimeoutAction.REJECT else 0
        self.scheduler = a_scheduler(
            inputs=(a_tensor("A", DataType.INT32, -1 if variable else 16),),
            maximum=maximum,
            strategy=strategy,
            preferred_batch_sizes=tuple(sorted(size for size in preferred if size <= maximum)),
            max_queue_delay_us=delay,
            priority_levels=levels,
            default_priority_level=min(levels, 1),
            default_queue_policy=QueuePolicy(action, timeout, allow_timeout_override=True),
        )
        self.waiting = []
        self.variable = variable
        self.levels = levels
        self.delays_late_ones = action is TimeoutAction.DELAY
        self.most_bytes = strategy.most if strategy else 1 << 30

    @rule(size=st.integers(1, 9), priority=st.integers(0, 4), width=st.integers(1, 2), timeout=st.integers(0, 30))
    def arrive(self, size, priority, width, timeout):
        size = min(size, self.maximum)
        request = a_request(
            "m", {"A": np.zeros((size, width), np.int32)}, batch_size=size, priority=priority, queued_ns=self.now,
            timeout_us=timeout,
        )  # fmt: skip
        self.scheduler.enqueue(request)
        self.waiting.append(request)

    @precondition(lambda self: self.waiting)
    @rule(choice=st.integers(0, 100))
    def cancel(self, choice):
        request = self.waiting.pop(choice % len(self.waiting))
        assert self.scheduler.cancel(request)
        assert not self.scheduler.cancel(request)

    @rule(us=st.integers(1, 50))
    def pass_time(self, us):
        """As the engine does: it wakes when it is told to, and expires before it schedules."""
        end = self.now + us * 1000
        while (wake := self.scheduler.wake_at(idle=False)) is not None and wake <= end:
            assert wake >= self.now
            self.now = wake
            for rejection in self.scheduler.expire(self.now):
                self.leave([rejection.request])
                assert rejection.request.deadline_ns == self.now
        self.now = end

    @rule()
    def be_idle(self):
        """An idle instance takes what it gets; then nothing waits that has no reason to."""
        while batch := self.scheduler.next_batch(self.now, 0):
            assert sum(rows(batch)) <= self.maximum
            if self.variable:
                assert len({request.inputs["A"].shape[1:] for request in batch}) == 1
            assert len(batch) == 1 or sum(request.inputs["A"].byte_size for request in batch) <= self.most_bytes
            assert batch == sorted(self.waiting, key=self.turn)[: len(batch)], "the order of the queue was not kept"
            self.leave(batch)
        if not self.delay_ns:
            assert not self.waiting
        elif self.waiting:
            wake = self.scheduler.wake_at(idle=True)
            oldest = min(request.queued_ns for request in self.waiting)
            assert self.now < wake <= oldest + self.delay_ns
        else:
            assert self.scheduler.wake_at(idle=True) is None

    def turn(self, request):
        """Levels ascending, those that are too late last in theirs, first come first served."""
        level = (request.priority if 1 <= request.priority <= self.levels else 1) if self.levels else 0
        late = self.delays_late_ones and 0 < request.deadline_ns <= self.now
        return level, request.deadline_ns if late else 0

    def leave(self, requests):
        for request in requests:
            self.waiting = [other for other in self.waiting if other is not request]

    @invariant()
    def nothing_is_lost_or_doubled(self):
        if hasattr(self, "scheduler"):
            assert len(self.scheduler) == len(self.waiting)

    def teardown(self):
        if hasattr(self, "scheduler"):
            assert sorted(map(id, self.scheduler.drain())) == sorted(map(id, self.waiting))


TestBatching = Batching.TestCase
TestBatching.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
