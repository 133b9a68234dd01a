"""The sequence batcher's rules: who gets a slot, what runs together, what ends a sequence."""

import logging

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import SequenceId
from charonia_runtime.core.scheduling import DirectStrategy, OldestStrategy
from charonia_runtime.core.tensor import Tensor
from tests.support.requests import a_request
from tests.support.sequences import IDLE_US, MS, STATE, a_scheduler, a_sequence_config, a_step, input_of, values

IDLE_NS = IDLE_US * 1000
STRATEGIES = [DirectStrategy(), OldestStrategy(4)]
both = pytest.mark.parametrize("strategy", STRATEGIES, ids=["direct", "oldest"])

NO_START = (
    "inference request for sequence 5 to model 'm' must specify the START flag on the first request of the sequence"
)
WRONG_ID = (
    "[request id: <id_unknown>] sequence batching control 'CORRID' data-type is 'BYTES', but model 'm' expects 'UINT64'"
)
CONFLICT = (
    "sequence 1 for model 'm' has a conflict. The previous sequence did not end before this sequence start. "
    "Previous sequence will be terminated early."
)


def enqueue(scheduler, *requests):
    for request in requests:
        scheduler.enqueue(request)


def run(scheduler, slot=1, now=0, states=None, rescheduled=()):
    """One whole execution; the values of its batch."""
    batch = scheduler.next_batch(now, slot)
    if batch:
        scheduler.finish(slot, now, states, rescheduled)
    return values(batch)


# --- what is refused ---


@both
@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            a_step(0, start=True),
            "inference request to model 'm' must specify a non-zero or non-empty correlation ID",
        ),
        (a_request("m"), "inference request to model 'm' must specify a non-zero or non-empty correlation ID"),
        (
            a_step(5),
            NO_START,
        ),
        (
            a_step(5, start=True, batch_size=2),
            "inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher",
        ),
        (
            a_step("five", start=True),
            WRONG_ID,
        ),
    ],
)
def test_what_is_refused(strategy, request_, text):
    scheduler = a_scheduler(a_sequence_config(strategy))
    with pytest.raises(InvalidArgumentError) as caught:
        scheduler.enqueue(request_)
    assert caught.value.message == text
    assert len(scheduler) == 0


@both
def test_an_id_is_free_after_the_end(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    enqueue(scheduler, a_step(5, start=True, end=True))
    with pytest.raises(InvalidArgumentError):
        scheduler.enqueue(a_step(5))
    assert run(scheduler) == [0]
    assert scheduler.is_vacant(1)


def test_numbers_and_strings_are_different_ids():
    scheduler = a_scheduler(a_sequence_config(controls=()))
    enqueue(scheduler, a_step(7, 1, start=True), a_step("7", 2, start=True))
    assert run(scheduler) == [1, 2]


# --- order and slots ---


@both
def test_the_requests_of_a_sequence_run_one_after_the_other(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy), instances=(1, 2))
    enqueue(scheduler, a_step(5, 1, start=True), a_step(5, 2), a_step(5, 3, end=True))
    assert values(scheduler.next_batch(0, 1)) == [1]
    assert scheduler.next_batch(0, 2) == []
    for value in (2, 3):
        scheduler.finish(1, 0, None, ())
        assert values(scheduler.next_batch(0, 1)) == [value]


@both
def test_the_lowest_slot_is_taken_on_whatever_instance(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy), instances=(1, 2))
    enqueue(scheduler, *(a_step(number, number, start=True) for number in range(1, 6)))
    assert run(scheduler, 1) == [1, 3, 5]
    assert run(scheduler, 2) == [2, 4]


def test_places_in_a_direct_batch_are_slots():
    scheduler = a_scheduler(a_sequence_config())
    enqueue(scheduler, *(a_step(number, number, start=True) for number in (1, 2, 3)))
    assert run(scheduler) == [1, 2, 3]
    enqueue(scheduler, a_step(3, 33))
    assert run(scheduler) == [None, None, 33]
    enqueue(scheduler, a_step(1, 11, end=True), a_step(3, 34))
    assert run(scheduler) == [11, None, 34]
    enqueue(scheduler, a_step(4, 4, start=True))
    assert run(scheduler) == [4]


def test_a_direct_slot_is_free_once_the_end_is_in_a_batch():
    scheduler = a_scheduler(a_sequence_config())
    enqueue(scheduler, a_step(1, 1, start=True, end=True))
    batch = scheduler.next_batch(0, 1)
    enqueue(scheduler, a_step(2, 2, start=True))
    scheduler.finish(1, 0, None, ())
    assert values(batch) == [1]
    assert run(scheduler) == [2]


def test_null_requests_look_like_the_others():
    config = a_sequence_config(variable=True, states=(STATE,))
    state = Tensor.from_numpy("STATE_IN", np.full((1, 1), 9, np.int32))
    scheduler = a_scheduler(config, initial_states={"STATE_IN": state})
    enqueue(scheduler, a_step(1, 1, start=True), a_step(2, 2, start=True))
    run(scheduler)
    enqueue(scheduler, a_step(2, 5, width=3))
    null, real = scheduler.next_batch(0, 1)
    assert (null.sequence, null.id, null.batch_size) == (None, "", 1)
    assert null.inputs.keys() == real.inputs.keys()
    for name, tensor in real.inputs.items():
        assert (null.inputs[name].datatype, null.inputs[name].shape) == (tensor.datatype, tensor.shape)
        assert not null.inputs[name].as_numpy().any()


def test_direct_requests_of_another_shape_wait_for_the_next_batch():
    scheduler = a_scheduler(a_sequence_config(variable=True))
    steps = [(1, 1), (2, 2), (3, 1)]
    enqueue(scheduler, *(a_step(number, number, width=width, start=True) for number, width in steps))
    assert run(scheduler) == [1, None, 3]
    assert run(scheduler) == [None, 2]


def test_oldest_requests_are_batched_without_null_requests():
    scheduler = a_scheduler(a_sequence_config(OldestStrategy(10)))
    enqueue(scheduler, *(a_step(number, number, start=True) for number in range(1, 7)))
    enqueue(scheduler, a_step(1, 11))
    assert run(scheduler) == [1, 2, 3, 4]
    assert run(scheduler) == [5, 6, 11]


def test_without_candidates_given_oldest_has_as_many_slots_as_direct():
    scheduler = a_scheduler(a_sequence_config(OldestStrategy(), max_batch_size=2))
    enqueue(scheduler, *(a_step(number, number, start=True) for number in range(3)[1:]))
    enqueue(scheduler, a_step(9, 9, start=True))
    assert run(scheduler) == [1, 2]
    assert run(scheduler) == []


# --- delays ---


@pytest.mark.parametrize(
    ("strategy", "enough"),
    [
        (DirectStrategy(100_000, 0.5), 2),
        (OldestStrategy(4, (2,), 100_000), 2),
        (DirectStrategy(100_000, 0.0), 1),
        (DirectStrategy(0, 0.5), 1),
        (OldestStrategy(4), 1),
    ],
)
def test_batches_wait_for_company_within_the_delay(strategy, enough):
    scheduler = a_scheduler(a_sequence_config(strategy))
    enqueue(scheduler, a_step(1, 1, start=True))
    if enough == 1:
        assert run(scheduler) == [1]
        return
    assert run(scheduler, now=99 * MS) == []
    assert scheduler.wake_at(idle=True) == 100 * MS
    enqueue(scheduler, a_step(2, 2, start=True, now=99 * MS))
    assert run(scheduler, now=99 * MS) == [1, 2]
    enqueue(scheduler, a_step(2, 3, now=100 * MS))
    assert run(scheduler, now=199 * MS) == []
    assert run(scheduler, now=200 * MS) == [3] if isinstance(strategy, OldestStrategy) else [None, 3]


def test_nothing_runs_before_enough_wait_for_tests():
    scheduler = a_scheduler(a_sequence_config(max_batch_size=1))
    scheduler.hold(2, 1)
    enqueue(scheduler, a_step(1, 1, start=True))
    assert run(scheduler) == []
    enqueue(scheduler, a_step(1, 2, end=True))
    assert run(scheduler) == []
    enqueue(scheduler, a_step(2, 3, start=True))
    assert [run(scheduler) for _ in range(3)] == [[1], [2], [3]]


# --- the backlog ---


@both
def test_sequences_without_a_slot_wait_in_order(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    enqueue(scheduler, *(a_step(number, number, start=True) for number in range(1, 7)), a_step(6, 66), a_step(5, 55))
    assert run(scheduler) == [1, 2, 3, 4]
    assert run(scheduler) == []
    enqueue(scheduler, a_step(3, 33, end=True))
    assert run(scheduler) in ([None, None, 33], [33])
    assert run(scheduler) in ([None, None, 5], [5])
    enqueue(scheduler, a_step(1, 11, end=True))
    assert set(run(scheduler)) - {None} == {11, 55}
    assert set(run(scheduler)) - {None} == {6}


@both
def test_a_timeout_in_the_backlog_ends_the_whole_sequence(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy, max_batch_size=1) if strategy == STRATEGIES[0] else
                            a_sequence_config(OldestStrategy(1)))  # fmt: skip
    slow = [a_step(2, 2, start=True), a_step(2, 3, timeout_us=5_000), a_step(2, 4)]
    enqueue(scheduler, a_step(1, 1, start=True, timeout_us=1_000), *slow, a_step(3, 5, start=True))
    assert scheduler.wake_at(idle=False) == 5 * MS
    assert scheduler.expire(5 * MS - 1) == []
    rejected = scheduler.expire(5 * MS)
    assert [rejection.request for rejection in rejected] == slow
    assert {rejection.error.message for rejection in rejected} == {
        "timeout of the corresponding sequence has been expired"
    }
    assert all(isinstance(rejection.error, UnavailableError) for rejection in rejected)
    with pytest.raises(InvalidArgumentError):
        scheduler.enqueue(a_step(2, now=6 * MS))
    enqueue(scheduler, a_step(1, 11, end=True))
    assert [run(scheduler) for _ in range(3)] == [[1], [11], [5]]


def test_a_timeout_does_not_count_once_there_is_a_slot():
    scheduler = a_scheduler(a_sequence_config(max_batch_size=1))
    enqueue(scheduler, a_step(1, 1, start=True, end=True), a_step(2, 2, start=True, timeout_us=5_000))
    assert run(scheduler) == [1]
    assert scheduler.expire(6 * MS) == []
    assert run(scheduler, now=6 * MS) == [2]


# --- idleness ---


@both
def test_a_silent_sequence_loses_its_slot(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    enqueue(scheduler, a_step(1, start=True), a_step(1, now=300 * MS))
    run(scheduler)
    run(scheduler)
    assert scheduler.wake_at(idle=True) == 300 * MS + IDLE_NS
    assert scheduler.expire(300 * MS + IDLE_NS - 1) == []
    assert not scheduler.is_vacant(1)
    assert scheduler.expire(300 * MS + IDLE_NS) == []
    assert scheduler.is_vacant(1)
    assert scheduler.wake_at(idle=True) is None
    with pytest.raises(InvalidArgumentError):
        scheduler.enqueue(a_step(1, now=300 * MS + IDLE_NS))


@both
def test_silence_counts_even_before_it_is_noticed(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    enqueue(scheduler, a_step(1, start=True))
    run(scheduler)
    with pytest.raises(InvalidArgumentError):
        scheduler.enqueue(a_step(1, now=IDLE_NS))


@both
def test_who_waits_for_an_answer_is_not_silent(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    enqueue(scheduler, a_step(1, 1, start=True), a_step(1, 2))
    batch = scheduler.next_batch(0, 1)
    assert scheduler.expire(IDLE_NS) == []
    enqueue(scheduler, a_step(1, 3, now=IDLE_NS))
    scheduler.finish(1, 3 * IDLE_NS, None, ())
    assert scheduler.expire(4 * IDLE_NS) == []
    assert [values(batch), *(run(scheduler, now=5 * IDLE_NS) for _ in range(2))] == [[1], [2], [3]]
    assert not scheduler.is_vacant(1)
    assert scheduler.expire(6 * IDLE_NS) == []
    assert scheduler.is_vacant(1)


@both
def test_waiting_in_the_backlog_is_no_silence(strategy):
    config = a_sequence_config(strategy, max_batch_size=1) if strategy == STRATEGIES[0] else (
        a_sequence_config(OldestStrategy(1)))  # fmt: skip
    scheduler = a_scheduler(config)
    enqueue(scheduler, a_step(1, 1, start=True), a_step(2, 2, start=True))
    run(scheduler)
    enqueue(scheduler, a_step(1, 1, now=IDLE_NS // 2))
    run(scheduler, now=IDLE_NS // 2)
    scheduler.expire(IDLE_NS + IDLE_NS // 2)
    assert run(scheduler, now=IDLE_NS + IDLE_NS // 2) == [2]
    enqueue(scheduler, a_step(2, 3, now=2 * IDLE_NS))
    assert run(scheduler, now=2 * IDLE_NS) == [3]


# --- conflicts ---


@both
def test_a_start_in_a_live_sequence_begins_it_anew_in_its_slot(strategy, caplog):
    state = Tensor.from_numpy("STATE_IN", np.zeros((1, 1), np.int32))
    scheduler = a_scheduler(a_sequence_config(strategy, states=(STATE,)), initial_states={"STATE_IN": state})
    enqueue(scheduler, a_step(1, 1, start=True))
    made = Tensor.from_numpy("STATE_IN", np.full((1, 1), 8, np.int32))
    assert run(scheduler, states=[{"STATE_IN": made}]) == [1]
    with caplog.at_level(logging.WARNING):
        enqueue(scheduler, a_step(1, 2), a_step(1, 3, start=True))
    assert caplog.messages == [CONFLICT]
    (second,) = scheduler.next_batch(0, 1)
    assert input_of(second, "STATE_IN") == 8
    scheduler.finish(1, 0, [{"STATE_IN": made}], ())
    (third,) = scheduler.next_batch(0, 1)
    assert (input_of(third, "STATE_IN"), input_of(third, "START")) == (0, 1)


# --- controls and states ---


@pytest.mark.parametrize("batches", [True, False])
def test_controls_tell_the_place_in_the_sequence(batches):
    scheduler = a_scheduler(a_sequence_config(max_batch_size=4 if batches else 0))
    enqueue(scheduler, a_step(2**64 - 3, start=True, batches=batches), a_step(2**64 - 3, end=True, batches=batches))
    for expected in ([1, 0.0, True, 2**64 - 3], [0, 1.0, True, 2**64 - 3]):
        (request,) = scheduler.next_batch(0, 1)
        assert [input_of(request, name) for name in ("START", "END", "READY", "CORRID")] == expected
        assert {tensor.shape for tensor in request.inputs.values()} == {(1, 1) if batches else (1,)}
        types = [request.inputs[name].datatype for name in ("START", "END", "READY", "CORRID")]
        assert types == [DataType.INT32, DataType.FP32, DataType.BOOL, DataType.UINT64]
        scheduler.finish(1, 0, None, ())


@both
def test_each_sequence_gets_its_own_state_back(strategy):
    initial = Tensor.from_numpy("STATE_IN", np.full((1, 1), 5, np.int32))
    scheduler = a_scheduler(a_sequence_config(strategy, states=(STATE,)), initial_states={"STATE_IN": initial})
    enqueue(scheduler, a_step(1, start=True), a_step(2, start=True))
    batch = scheduler.next_batch(0, 1)
    assert [input_of(request, "STATE_IN") for request in batch] == [5, 5]
    made = [{"STATE_IN": Tensor.from_numpy("STATE_IN", np.full((1, 1), 10 * (i + 1), np.int32))} for i in range(2)]
    scheduler.finish(1, 0, made, ())
    enqueue(scheduler, a_step(2), a_step(1))
    batch = scheduler.next_batch(0, 1)
    assert {request.sequence.correlation_id: input_of(request, "STATE_IN") for request in batch} == {1: 10, 2: 20}
    scheduler.finish(1, 0, None, ())
    enqueue(scheduler, a_step(2))
    assert input_of(scheduler.next_batch(0, 1)[-1], "STATE_IN") == 20, "a state that was not made stays"


# --- cancellation ---


@both
def test_cancelling_ends_the_sequence_there(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    steps = [a_step(1, value, start=value == 0) for value in range(4)]
    enqueue(scheduler, *steps)
    batch = scheduler.next_batch(0, 1)
    assert not scheduler.cancel(steps[0]), "it runs"
    assert scheduler.cancel(steps[2])
    assert scheduler.wake_at(idle=False) == 0
    ((request, error),) = scheduler.expire(0)
    assert request is steps[3]
    assert isinstance(error, CancelledError)
    scheduler.finish(1, 0, None, ())
    assert (values(batch), run(scheduler)) == ([0], [1])
    assert (len(scheduler), scheduler.is_vacant(1)) == (0, True)


@both
def test_cancelling_the_first_that_waits_frees_the_slot(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    steps = [a_step(1, start=True), a_step(1)]
    enqueue(scheduler, *steps)
    assert scheduler.cancel(steps[0])
    assert [request for request, _ in scheduler.expire(0)] == [steps[1]]
    assert scheduler.is_vacant(1)
    assert run(scheduler) == []


def test_cancelling_in_the_backlog_drops_the_sequence():
    scheduler = a_scheduler(a_sequence_config(max_batch_size=1))
    steps = [a_step(2, 1, start=True), a_step(2, 2)]
    enqueue(scheduler, a_step(1, start=True), *steps, a_step(3, 3, start=True))
    assert scheduler.cancel(steps[1])
    assert [request for request, _ in scheduler.expire(0)] == [steps[0]]
    enqueue(scheduler, a_step(1, 9, end=True))
    assert [run(scheduler) for _ in range(3)] == [[0], [9], [3]]


@both
def test_draining_gives_everything_up(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy))
    steps = [a_step(number, start=True) for number in range(1, 7)] + [a_step(1), a_step(6)]
    enqueue(scheduler, *steps)
    running = scheduler.next_batch(0, 1)
    drained = scheduler.drain()
    assert {id(request) for request in [*running, *drained]} == {id(request) for request in steps}
    assert len(scheduler) == 0
    scheduler.finish(1, 0, None, ())
    assert scheduler.is_vacant(1)


# --- instances ---


def test_a_retired_instance_keeps_its_sequences_and_gets_no_more():
    scheduler = a_scheduler(a_sequence_config(), instances=(1, 2))
    enqueue(scheduler, a_step(1, 1, start=True))
    scheduler.retire_instance(1)
    enqueue(scheduler, a_step(2, 2, start=True), a_step(1, 11, end=True))
    assert (run(scheduler, 1), run(scheduler, 2)) == ([1], [2])
    assert not scheduler.is_vacant(1)
    assert run(scheduler, 1) == [11]
    assert scheduler.is_vacant(1)


def test_the_backlog_goes_to_an_instance_that_is_added():
    scheduler = a_scheduler(a_sequence_config(max_batch_size=1))
    enqueue(scheduler, a_step(1, 1, start=True), a_step(2, 2, start=True))
    scheduler.add_instance(2, 5 * IDLE_NS)
    scheduler.expire(5 * IDLE_NS)
    enqueue(scheduler, a_step(2, 3, now=5 * IDLE_NS))
    assert (run(scheduler, 1), run(scheduler, 2), run(scheduler, 2)) == ([1], [2], [3])


# --- iterative sequences ---


@both
def test_a_step_that_is_not_the_last_comes_again(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy, iterative=True))
    request = a_request("m", {"IN": np.full((1, 1), 3, np.int32)})
    enqueue(scheduler, request)
    assert request.sequence == SequenceId(1, start=True)
    for round_ in range(3):
        assert values(scheduler.next_batch(round_ * IDLE_NS, 1)) == [3]
        assert input_of(request, "START") == (round_ == 0)
        scheduler.expire((round_ + 1) * IDLE_NS)
        waiting = scheduler.finish(1, (round_ + 1) * IDLE_NS, None, (0,))
        assert waiting == [request]
        assert request.sequence == SequenceId(1)
    scheduler.next_batch(3 * IDLE_NS, 1)
    assert scheduler.finish(1, 3 * IDLE_NS, None, ()) == []
    assert scheduler.is_vacant(1)


@both
def test_a_step_goes_before_what_came_meanwhile(strategy):
    scheduler = a_scheduler(a_sequence_config(strategy, iterative=True))
    enqueue(scheduler, a_step(7, 1, start=True, end=True))
    enqueue(scheduler, a_step(8, 2, start=True), a_step(8, 3, end=True))
    assert run(scheduler, rescheduled=(0, 1)) == [1, 2]
    assert run(scheduler, rescheduled=(0,)) == [1, 2]
    assert run(scheduler) == [1, 3]
    assert scheduler.is_vacant(1)


def test_the_servers_ids_avoid_those_of_clients():
    scheduler = a_scheduler(a_sequence_config(iterative=True))
    enqueue(scheduler, a_step(1, start=True))
    request = a_request("m", {"IN": np.zeros((1, 1), np.int32)})
    enqueue(scheduler, request)
    assert request.sequence == SequenceId(2, start=True)
