from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from charonia_runtime.core.config import InstanceKind, Placement, RateLimiterResource
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.engine.execution.rate_limiter import Contender, RateLimiter, Resource, ResourceLimit, needs_of

R, S = Resource("r", 0), Resource("s", None)


class Worker:
    """An instance with so much to do that it takes every turn it gets, unless it has `no_work`."""

    def __init__(self, limiter: RateLimiter, log: list[str], name: str, priority: int = 1, **needs: int) -> None:
        self.name = name
        self.no_work = False
        self.turns = 0
        self._log = log
        self._limiter = limiter
        self.contender = Contender({Resource(key, 0): count for key, count in needs.items()}, self._run, priority)
        limiter.add(self.contender)

    def ask(self) -> None:
        self._limiter.ask(self.contender)

    def finish(self) -> None:
        """As a flow does: give back, ask anew, let everyone be served."""
        self._limiter.release(self.contender)
        self.ask()
        self._limiter.serve()

    def _run(self) -> bool:
        if self.no_work:
            return False
        self.turns += 1
        self._log.append(self.name)
        return True


@pytest.fixture
def log() -> list[str]:
    return []


def run(limiter: RateLimiter, workers: list[Worker], turns: int) -> None:
    """Executions of equal length, the longest-running one ends first."""
    for worker in workers:
        worker.ask()
    limiter.serve()
    running = [worker for worker in workers if worker.contender.holds]
    for _ in range(turns):
        running.pop(0).finish()
        running += [one for one in workers if one.contender.holds and one not in running]


def test_without_limits_there_is_as_much_as_the_greediest_needs(log):
    limiter = RateLimiter()
    one, other = Worker(limiter, log, "a", r=4), Worker(limiter, log, "b", r=4)

    run(limiter, [one, other], 4)

    assert log == ["a", "b", "a", "b", "a"]
    assert limiter.available(R) == 4


def test_priority_two_gets_half_as_many_turns(log):
    limiter = RateLimiter()
    workers = [Worker(limiter, log, "a", 1, r=1), Worker(limiter, log, "b", 2, r=1)]

    run(limiter, workers, 29)

    assert (log.count("a"), log.count("b")) == (20, 10)


def test_different_resources_do_not_wait_for_each_other(log):
    limiter = RateLimiter()
    run(limiter, [Worker(limiter, log, "a", r=1), Worker(limiter, log, "b", q=1)], 0)
    assert log == ["a", "b"]


def test_nobody_passes_the_best_rank_by(log):
    """A small instance could run, but then the large one would never get all that it needs."""
    limiter = RateLimiter([ResourceLimit("R", 2)])
    small, smaller = Worker(limiter, log, "s", r=1), Worker(limiter, log, "t", r=1)
    large = Worker(limiter, log, "L", r=2)

    run(limiter, [small, smaller, large], 6)

    assert log.count("L") >= 2


def test_one_that_comes_back_does_not_catch_up(log):
    limiter = RateLimiter()
    busy, idle = Worker(limiter, log, "a", r=1), Worker(limiter, log, "b", r=1)
    run(limiter, [busy], 100)

    log.clear()
    idle.ask()
    run(limiter, [busy, idle], 9)

    assert abs(log.count("a") - log.count("b")) <= 1


def test_a_turn_not_taken_costs_nothing(log):
    limiter = RateLimiter()
    lazy, other = Worker(limiter, log, "a", r=1), Worker(limiter, log, "b", r=1)
    lazy.no_work = True

    run(limiter, [lazy, other], 3)

    assert log == ["b"] * 4
    assert (lazy.contender.rank, lazy.contender.holds) == (0, False)


def test_one_that_withdraws_holds_nobody_up(log):
    limiter = RateLimiter()
    one, two, three = (Worker(limiter, log, name, r=1) for name in "abc")
    for worker in (one, two, three):
        worker.ask()
    limiter.serve()

    limiter.withdraw(two.contender)
    limiter.release(one.contender)
    limiter.serve()

    assert log == ["a", "c"]


def test_one_that_leaves_while_it_runs_gives_back_all_the_same(log):
    limiter = RateLimiter()
    one, other = Worker(limiter, log, "a", r=3), Worker(limiter, log, "b", r=1)
    one.ask()
    limiter.serve()
    limiter.remove(one.contender)
    other.ask()
    limiter.serve()
    assert (log, limiter.available(R)) == (["a"], 3)

    limiter.release(one.contender)
    limiter.serve()

    assert (log, limiter.available(R), limiter.used()[R]) == (["a", "b"], 1, 1)


def a_placement(*resources: RateLimiterResource, device: int = 0) -> Placement:
    return Placement("m_0_0", InstanceKind.GPU, device, resources=resources)


@pytest.mark.parametrize(
    ("limits", "resource", "device", "available"),
    [
        ([ResourceLimit("R", 3)], "R", 5, 3),
        ([ResourceLimit("R", 3), ResourceLimit("R", 9, 1)], "R", 1, 9),
        ([ResourceLimit("R", 3), ResourceLimit("R", 9, 1)], "r", 0, 3),
        ([ResourceLimit("R", 3, 1)], "R", 0, 0),
        ([ResourceLimit("Q", 3)], "R", 0, 0),
    ],
)
def test_limits_of_devices(limits, resource, device, available):
    limiter = RateLimiter(limits)
    limiter.check([a_placement(RateLimiterResource(resource, available), device=device)])

    with pytest.raises(InvalidArgumentError) as raised:
        limiter.check([a_placement(RateLimiterResource(resource, available + 1), device=device)])

    assert raised.value.message == (
        f'Resource count for "{resource}" is limited to {available} which will prevent scheduling of one or more model '
        f"instances, the minimum required count is {available + 1}"
    )


def test_of_a_global_resource_there_is_the_most_that_was_given():
    limiter = RateLimiter([ResourceLimit("G", 2, 7), ResourceLimit("g", 5, 8), ResourceLimit("G", 1)])
    assert limiter.available(Resource("g", None)) == 5


def test_a_resource_is_either_global_or_of_a_device():
    limiter = RateLimiter()
    limiter.add(Contender(needs_of(a_placement(RateLimiterResource("R", 1, is_global=True))), lambda: True))

    with pytest.raises(InvalidArgumentError, match=r'^Resource "R" is present as both global and device-specific'):
        limiter.check([a_placement(RateLimiterResource("R", 1))])


class RateLimiterMachine(RuleBasedStateMachine):
    """Never above a budget, whatever instances do; and whoever asks gets a turn when the others go on finishing."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = RateLimiter([ResourceLimit("r", 4), ResourceLimit("s", 3)])
        self.workers: list[Worker] = []

    @rule(r=st.integers(0, 4), s=st.integers(0, 3), priority=st.integers(0, 4))
    def add(self, r: int, s: int, priority: int) -> None:
        if len(self.workers) < 6:
            self.workers.append(Worker(self.limiter, [], "w", priority, r=r, s=s))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def ask(self, data: Any) -> None:
        data.draw(st.sampled_from(self.workers)).ask()
        self.limiter.serve()

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), again=st.booleans())
    def finish(self, data: Any, again: bool) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.limiter.release(worker.contender)
        if again:
            worker.ask()
        self.limiter.serve()

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def withdraw(self, data: Any) -> None:
        self.limiter.withdraw(data.draw(st.sampled_from(self.workers)).contender)
        self.limiter.serve()

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def change_work(self, data: Any) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        worker.no_work = not worker.no_work

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.workers.remove(worker)
        self.limiter.remove(worker.contender)
        self.limiter.release(worker.contender)
        self.limiter.serve()

    @rule()
    def everyone_gets_a_turn(self) -> None:
        """With all of them always busy, the slowest weight (4) of six workers comes within a few rounds."""
        for worker in self.workers:
            worker.no_work = False
            worker.ask()
        self.limiter.serve()
        before = {worker: worker.turns + worker.contender.holds for worker in self.workers}
        for _ in range(30):
            for worker in self.workers:
                if worker.contender.holds:
                    worker.finish()
        assert all(worker.turns + worker.contender.holds > before[worker] for worker in self.workers)

    @invariant()
    def within_budget(self) -> None:
        holding = [worker.contender for worker in self.workers if worker.contender.holds]
        for resource, most in ((Resource("r", 0), 4), (Resource("s", 0), 3)):
            held = sum(contender.needs[resource] for contender in holding)
            assert held == self.limiter.used().get(resource, 0) <= most

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """The best of those who wait lacks something."""
        waiting = [worker.contender for worker in self.workers if worker.contender.waits]
        if waiting:
            best = min(waiting, key=lambda contender: (contender.rank, contender.asking))
            free = {one: self.limiter.available(one) - self.limiter.used().get(one, 0) for one in best.needs}
            assert any(free[resource] < count for resource, count in best.needs.items())


TestRateLimiterMachine = RateLimiterMachine.TestCase
TestRateLimiterMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
