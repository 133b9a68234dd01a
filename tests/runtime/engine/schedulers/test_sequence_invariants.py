"""
What must hold of the sequence batcher whatever happens: nothing lost, nothing twice, order and states kept inside a
sequence, never two of its requests at once, no slot leaks, nothing waits where it could run.
"""

from collections import defaultdict
from contextlib import suppress

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import DirectStrategy, OldestStrategy
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.schedulers.sequence.direct import NullRequest
from tests.support.sequences import IDLE_US, MS, STATE, a_scheduler, a_sequence_config, a_step, input_of

MOST_INSTANCES = 3
MAXIMUM = 3
DELAY_US = 2_000
IDS = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])


def a_state(value):
    return Tensor.from_numpy("STATE_IN", np.full((1, 1), value, np.int32))


class Sequences(RuleBasedStateMachine):
    """Each request adds 1 to its sequence's state, so that a request knows how many ran before it."""

    iterative = False

    @initialize(
        strategy=st.sampled_from([
            DirectStrategy(), DirectStrategy(DELAY_US, 0.9), OldestStrategy(MAXIMUM), OldestStrategy(2),
            OldestStrategy(4, (2,), DELAY_US),
        ])
    )  # fmt: skip
    def start(self, strategy):
        config = a_sequence_config(strategy, max_batch_size=MAXIMUM, states=(STATE,), iterative=self.iterative)
        self.direct = isinstance(strategy, DirectStrategy)
        self.capacity = MAXIMUM if self.direct else strategy.max_candidate_sequences
        self.delay_ns = strategy.max_queue_delay_us * 1000
        self.scheduler = a_scheduler(config, (1, 2), {"STATE_IN": a_state(0)})
        self.instances = [1, 2]
        self.retired = set()
        self.made = 2
        self.now = 0
        self.running = {}
        self.waiting = defaultdict(list)
        """Requests that wait, by their sequence, in the order in which they must run."""
        self.counts = {}
        """How many requests of a sequence ran since it last started."""
        self.started = {}
        """The time from which a request could have run."""

    # --- arrivals ---

    def enqueue(self, request):
        with suppress(InvalidArgumentError):
            self.scheduler.enqueue(request)
            self.waiting[self.scheduler._sequence_of[id(request)]].append(request)

    @rule(number=IDS, end=st.booleans(), timeout_us=st.sampled_from([0, 0, 5_000]))
    def begin(self, number, end, timeout_us):
        self.enqueue(a_step(number, start=True, end=end, now=self.now, timeout_us=timeout_us))

    @rule(number=IDS, timeout_us=st.sampled_from([0, 0, 5_000]))
    def go_on(self, number, timeout_us):
        self.enqueue(a_step(number, now=self.now, timeout_us=timeout_us))

    @rule(number=IDS)
    def end(self, number):
        self.enqueue(a_step(number, end=True, now=self.now))

    # --- executions ---

    @rule(data=st.data())
    def run_any(self, data):
        self.run(data.draw(st.sampled_from(self.instances)))

    def run(self, slot):
        if slot in self.running:
            return
        ready = [s for s in self.waiting if self.waiting[s] and s.instance is not None and s.instance.number == slot]
        batch = self.scheduler.next_batch(self.now, slot)
        if not batch:
            oldest = min([self.waiting[sequence][0].queued_ns for sequence in ready], default=self.now)
            assert not ready or oldest + self.delay_ns > self.now, "an idle instance has something to run"
            return
        self.running[slot] = [self.check_leaves(request, place) for place, request in enumerate(batch)]
        assert len(batch) <= MAXIMUM
        assert self.running[slot][-1] is not None, "no null requests at the end"
        real = [one for one in self.running[slot] if one is not None]
        assert self.direct or len(real) == len(batch)
        assert len({id(sequence) for sequence, _ in real}) == len(real), "two requests of a sequence in a batch"

    def check_leaves(self, request, place):
        if isinstance(request, NullRequest):
            assert not input_of(request, "READY")
            return None
        (sequence,) = [sequence for sequence, requests in self.waiting.items() if request in requests]
        assert self.waiting[sequence].pop(0) is request, "the order of a sequence was not kept"
        assert all(sequence is not other[0] for batch in self.running.values() for other in batch if other is not None)
        assert input_of(request, "CORRID") == request.sequence.correlation_id
        assert (input_of(request, "START"), input_of(request, "END")) == (request.sequence.start, request.sequence.end)
        assert not self.direct or sequence.slot == place
        if request.sequence.start:
            self.counts[sequence] = 0
        assert input_of(request, "STATE_IN") == self.counts[sequence], "the states of sequences were mixed"
        return sequence, request

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data):
        slot = data.draw(st.sampled_from(sorted(self.running)))
        batch = self.running.pop(slot)
        states = [{} for _ in batch]
        failed = data.draw(st.booleans())
        again = set()
        for place, one in enumerate(batch):
            if one is not None and not failed:
                self.counts[one[0]] += 1
                states[place] = {"STATE_IN": a_state(self.counts[one[0]])}
            if one is not None and self.iterative and data.draw(st.booleans()):
                again.add(place)
        waiting = self.scheduler.finish(slot, self.now, None if failed else states, again)
        assert waiting == [batch[place][1] for place in sorted(again)]
        for place in again:
            self.waiting[batch[place][0]].insert(0, batch[place][1])

    # --- instances ---

    @precondition(lambda self: len(self.instances) < MOST_INSTANCES)
    @rule()
    def add_instance(self):
        self.made += 1
        self.instances.append(self.made)
        self.scheduler.add_instance(self.made, self.now)

    @precondition(lambda self: len(self.instances) - len(self.retired) > 1)
    @rule(data=st.data())
    def retire_instance(self, data):
        slot = data.draw(st.sampled_from([slot for slot in self.instances if slot not in self.retired]))
        self.scheduler.retire_instance(slot)
        self.retired.add(slot)

    @invariant()
    def what_is_retired_and_vacant_goes(self):
        for slot in sorted(getattr(self, "retired", ())):
            if slot not in self.running and self.scheduler.is_vacant(slot):
                self.scheduler.remove_instance(slot)
                self.instances.remove(slot)
                self.retired.remove(slot)

    # --- time and cancellation ---

    @rule(milliseconds=st.sampled_from([1, 2, 4, 200, IDLE_US // 1000]))
    def wait(self, milliseconds):
        self.now += milliseconds * MS

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def cancel(self, data):
        request = data.draw(st.sampled_from([one for requests in self.waiting.values() for one in requests]))
        assert self.scheduler.cancel(request)
        assert not self.scheduler.cancel(request)
        self.forget(request)

    def forget(self, request):
        (requests,) = [requests for requests in self.waiting.values() if request in requests]
        requests.remove(request)

    @invariant()
    def time_is_obeyed(self):
        if not hasattr(self, "scheduler"):
            return
        for request, _ in self.scheduler.expire(self.now):
            self.forget(request)
        assert self.scheduler.expire(self.now) == []
        for sequence, requests in self.waiting.items():
            if sequence.instance is None:
                late = [one for one in requests if one.timeout_us and one.queued_ns + one.timeout_us * 1000 <= self.now]
                assert not late, "a request waits past its deadline"
        wake = self.scheduler.wake_at(idle=False)
        assert wake is None or wake > self.now

    @invariant()
    def nothing_is_lost_and_no_slot_leaks(self):
        if not hasattr(self, "scheduler"):
            return
        assert len(self.scheduler) == sum(len(requests) for requests in self.waiting.values())
        instances = self.scheduler._seating.instances.values()
        assert all(0 <= instance.occupied <= self.capacity for instance in instances)
        backlogged = [sequence for sequence, waiting in self.waiting.items() if waiting and sequence.instance is None]
        if backlogged:
            serving = [instance for instance in instances if not instance.retired]
            assert all(instance.occupied == self.capacity for instance in serving), "a slot is free"
            assert len(serving) == len(self.instances) - len(self.retired)

    def teardown(self):
        """Once everything has run and fallen silent, every slot is free."""
        if not hasattr(self, "scheduler"):
            return
        while any(self.waiting.values()) or self.running:
            for slot in list(self.running):
                batch = self.running.pop(slot)
                for one in batch:
                    if one is not None:
                        self.counts[one[0]] += 1
                states = [{} if one is None else {"STATE_IN": a_state(self.counts[one[0]])} for one in batch]
                self.scheduler.finish(slot, self.now, states, ())
            self.now += IDLE_US * 1000
            self.time_is_obeyed()
            for slot in self.instances:
                self.run(slot)
        self.now += IDLE_US * 1000
        self.time_is_obeyed()
        assert all(self.scheduler.is_vacant(slot) for slot in self.instances)
        assert len(self.scheduler) == 0
        assert self.scheduler.wake_at(idle=True) is None


class IterativeSequences(Sequences):
    """The same where models ask for requests again."""

    iterative = True


TestSequences = Sequences.TestCase
TestIterativeSequences = IterativeSequences.TestCase
TestSequences.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestIterativeSequences.settings = TestSequences.settings
