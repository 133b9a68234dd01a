"""Queue policies: limits, timeouts, priorities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.integers(0, 4), st.integers(0, 60)),
            st.tuples(st.just("take"), st.integers(0, 5), st.just(0)),
            st.tuples(st.just("expire"), st.integers(0, 40), st.just(0)),
            st.tuples(st.just("remove"), st.integers(0, 30), st.just(0)),
        ),
        max_size=60,
    )
)
def test_every_request_leaves_once_and_on_time(steps):
    queue = levels(
        p1=QueuePolicy(default_timeout_us=50, allow_timeout_override=True),
        p2=QueuePolicy(TimeoutAction.DELAY, default_timeout_us=30),
    )
    now = 0
    pushed, left = [], []
    for step, number, timeout in steps:
        if step == "push":
            pushed.append(push(queue, now=now, priority=number, timeout_us=timeout))
        elif step == "take":
            left += queue.take(number)
        elif step == "remove" and number < len(pushed) and queue.remove(pushed[number]):
            left.append(pushed[number])
        elif step == "expire":
            now += number * US
            left += [rejection.request for rejection in queue.expire(now)]
            deadline = queue.next_deadline()
            assert deadline is None or deadline > now
        assert len(queue) == len(pushed) - len(left) == len(list(queue))
    left += queue.take(len(queue))
    assert sorted(map(id, left)) == sorted(map(id, pushed))
