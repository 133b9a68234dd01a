"""Queue policies: limits, timeouts, priorities."""

import tracemalloc

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.core.scheduling import DynamicBatching, QueuePolicy, TimeoutAction
from charonia_runtime.engine.schedulers.queue import RequestQueue
from tests.support.requests import a_request

US = 1000


def push(queue, *, now=0, **fields):
    request = a_request(queued_ns=now, **fields)
    queue.push(request)
    return request


def test_first_come_first_served():
    queue = RequestQueue()
    requests = [push(queue) for _ in range(5)]
    assert list(queue) == requests
    assert queue.take(2) == requests[:2]
    assert queue.take(9) == requests[2:]
    assert queue.take(1) == []
    assert len(queue) == 0


def test_removal_from_the_middle():
    queue = RequestQueue()
    first, second, third = (push(queue) for _ in range(3))
    assert queue.remove(second)
    assert not queue.remove(second)
    assert queue.take(3) == [first, third]
    assert not queue.remove(first)


def levels(**policies):
    return RequestQueue.of(
        DynamicBatching(
            priority_levels=3,
            default_priority_level=2,
            priority_queue_policies={int(name[1:]): policy for name, policy in policies.items()},
        )
    )


def test_levels_run_strictly_in_order():
    queue = levels()
    order = [push(queue, priority=priority) for priority in (3, 1, 0, 2, 1, 99, 2**63)]
    assert queue.take(9) == [order[1], order[4], order[2], order[3], order[5], order[6], order[0]]


def test_as_many_levels_as_a_configuration_may_name():
    most = 2**64 - 1
    queue = RequestQueue.of(
        DynamicBatching(
            priority_levels=most,
            default_priority_level=most,
            priority_queue_policies={most - 1: QueuePolicy(default_timeout_us=5)},
        )
    )
    assert queue.expires
    last, late, first = (push(queue, priority=priority) for priority in (0, most - 1, 7))
    assert list(queue) == [first, late, last]
    assert [rejection.request for rejection in queue.expire(5 * US)] == [late]
    assert queue.take(2) == [first, last]


def test_levels_that_nobody_waits_in_cost_no_memory():
    queue = RequestQueue.of(DynamicBatching(priority_levels=10**6, default_priority_level=1))
    tracemalloc.start()
    try:
        for priority in range(1, 20_001):
            push(queue, priority=priority)
            queue.take(1)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 500_000


def test_a_full_level_refuses():
    queue = levels(p1=QueuePolicy(max_queue_size=2))
    kept = [push(queue, priority=1) for _ in range(2)]
    with pytest.raises(UnavailableError, match=r"^\[request id: r1\] Exceeds maximum queue size$"):
        push(queue, priority=1, id="r1")
    other = push(queue, priority=2)
    queue.take(1)
    late = push(queue, priority=1)
    assert list(queue) == [kept[1], late, other]


# (default timeout, override allowed, request's timeout) → what counts, in microseconds
@pytest.mark.parametrize(
    ("default", "override", "own", "effective"),
    [
        (100, False, 0, 100),
        (100, False, 50, 100),
        (100, True, 50, 50),
        (100, True, 150, 100),
        (100, True, 0, 100),
        (0, True, 50, None),
        (0, False, 0, None),
    ],
)
def test_which_timeout_counts(default, override, own, effective):
    queue = RequestQueue(QueuePolicy(default_timeout_us=default, allow_timeout_override=override))
    request = push(queue, now=7, timeout_us=own)
    assert queue.next_deadline() == (None if effective is None else 7 + effective * US)
    if effective is None:
        assert queue.expire(10**18) == []
        return
    assert queue.expire(7 + effective * US - 1) == []
    (rejection,) = queue.expire(7 + effective * US)
    assert rejection.request is request
    assert isinstance(rejection.error, UnavailableError)
    assert rejection.error.message == "Request timeout expired"
    assert len(queue) == 0
    assert queue.next_deadline() is None


def test_delayed_requests_run_behind_the_others_of_their_level():
    policy = QueuePolicy(TimeoutAction.DELAY, default_timeout_us=100, allow_timeout_override=True)
    queue = levels(p1=policy)
    slow, hasty, other = (push(queue, priority=p, timeout_us=t) for p, t in ((1, 0), (1, 10), (2, 0)))
    assert queue.expire(50 * US) == []
    late = push(queue, priority=1, now=50 * US)
    assert list(queue) == [slow, late, hasty, other]
    assert queue.expire(120 * US) == []
    assert list(queue) == [late, hasty, slow, other]
    assert queue.remove(hasty)
    assert queue.take(9) == [late, slow, other]


def test_delayed_requests_still_count_for_their_level():
    queue = RequestQueue(QueuePolicy(TimeoutAction.DELAY, default_timeout_us=1, max_queue_size=1))
    push(queue)
    assert queue.expire(US) == []
    with pytest.raises(UnavailableError):
        push(queue, now=US)


def test_deadlines_of_executed_requests_are_forgotten():
    queue = RequestQueue(QueuePolicy(default_timeout_us=10**9))
    for _ in range(10_000):
        push(queue)
        queue.take(1)
    assert len(queue._deadlines) < 100


class Policies(RuleBasedStateMachine):
    """Pushes, takes, removals and time in any order, against a plain list of what waits."""

    def __init__(self):
        super().__init__()
        self.queue = levels(
            p1=QueuePolicy(default_timeout_us=50, allow_timeout_override=True, max_queue_size=3),
            p2=QueuePolicy(TimeoutAction.DELAY, default_timeout_us=30),
        )
        self.now = 0
        self.waiting = []
        self.made = []
        """Keeps requests alive: one at the address of another, with its very deadline, may overtake those between."""

    def level(self, request):
        return request.priority if request.priority in {1, 2, 3} else 2

    def deadline(self, request):
        """When its policy gives it up or puts it back; None for never."""
        default = {1: 50, 2: 30, 3: None}[self.level(request)]
        if self.level(request) == 1 and 0 < request.timeout_us < 50:
            default = request.timeout_us
        return None if default is None else request.queued_ns + default * US

    def turn(self, request):
        """Levels ascending, what was put back last in its level in the order of its deadlines, else as it came."""
        deadline = self.deadline(request)
        return self.level(request), deadline if self.level(request) == 2 and deadline <= self.now else 0

    def leave(self, *requests):
        self.waiting = [other for other in self.waiting if all(other is not request for request in requests)]

    @rule(priority=st.integers(0, 4), timeout_us=st.integers(0, 60))
    def arrive(self, priority, timeout_us):
        full = priority == 1 and sum(self.level(request) == 1 for request in self.waiting) == 3
        try:
            request = push(self.queue, now=self.now, priority=priority, timeout_us=timeout_us)
        except UnavailableError:
            assert full
        else:
            assert not full, "no level above its limit"
            self.waiting.append(request)
            self.made.append(request)

    @rule(count=st.integers(0, 5))
    def take(self, count):
        taken = self.queue.take(count)
        expected = sorted(self.waiting, key=self.turn)[:count]
        assert list(map(id, taken)) == list(map(id, expected))
        self.leave(*taken)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def remove(self, data):
        request = self.waiting[data.draw(st.integers(0, len(self.waiting) - 1))]
        assert self.queue.remove(request)
        assert not self.queue.remove(request)
        self.leave(request)

    @rule(us=st.integers(0, 40))
    def pass_time(self, us):
        self.now += us * US
        rejected = [rejection.request for rejection in self.queue.expire(self.now)]
        late = [one for one in self.waiting if self.level(one) == 1 and self.deadline(one) <= self.now]
        assert sorted(map(id, rejected)) == sorted(map(id, late)), "exactly what is past its deadline"
        self.leave(*rejected)

    @invariant()
    def nothing_is_lost(self):
        expected = sorted(self.waiting, key=self.turn)
        assert list(map(id, self.queue)) == list(map(id, expected))
        assert len(self.queue) == len(self.waiting)

    @invariant()
    def the_next_deadline_is_known(self):
        deadlines = [self.deadline(request) for request in self.waiting]
        coming = [deadline for deadline in deadlines if deadline is not None and deadline > self.now]
        assert self.queue.next_deadline() == min(coming, default=None)


TestPolicies = Policies.TestCase
