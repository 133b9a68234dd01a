"""The default scheduler: one request at a time, first come, first served."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from charonia_runtime.engine.schedulers.direct import DirectScheduler
from tests.support.requests import a_request


def test_one_at_a_time_in_order():
    scheduler = DirectScheduler()
    requests = [a_request(batch_size=size) for size in (1, 8, 2)]
    for request in requests:
        scheduler.enqueue(request)
    assert [scheduler.next_batch(0, slot) for slot in range(4)] == [[request] for request in requests] + [[]]


def test_cancelled_and_drained_requests_are_gone():
    scheduler = DirectScheduler()
    requests = [a_request() for _ in range(3)]
    for request in requests:
        scheduler.enqueue(request)
    assert scheduler.cancel(requests[1])
    assert not scheduler.cancel(requests[1])
    assert scheduler.next_batch(0, 0) == [requests[0]]
    assert not scheduler.cancel(requests[0])
    assert scheduler.drain() == [requests[2]]
    assert len(scheduler) == 0
    assert scheduler.next_batch(0, 0) == []


def test_nothing_waits_for_time():
    scheduler = DirectScheduler()
    scheduler.enqueue(a_request(timeout_us=1))
    assert not scheduler.expires
    assert scheduler.expire(10**18) == []
    assert scheduler.wake_at(idle=True) is None


class OneByOne(RuleBasedStateMachine):
    """Arrivals, cancellations and instances in any order: each request leaves once, in its turn, alone."""

    def __init__(self):
        super().__init__()
        self.scheduler = DirectScheduler()
        self.waiting = []

    @rule(rows=st.integers(1, 8))
    def arrive(self, rows):
        self.waiting.append(a_request(batch_size=rows))
        self.scheduler.enqueue(self.waiting[-1])

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        request = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        assert self.scheduler.cancel(request)
        assert not self.scheduler.cancel(request)

    @rule(slot=st.integers(0, 3))
    def run(self, slot):
        batch = self.scheduler.next_batch(0, slot)
        assert [id(request) for request in batch] == [id(request) for request in self.waiting[:1]]
        del self.waiting[:1]

    @invariant()
    def nothing_is_lost(self):
        assert len(self.scheduler) == len(self.waiting)

    def teardown(self):
        assert [id(request) for request in self.scheduler.drain()] == [id(request) for request in self.waiting]


TestOneByOne = OneByOne.TestCase
