"""Requests through an ensemble whose models answer when the test says so."""

import asyncio

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from charonia_runtime.core.request import InferenceResponse, RequestedOutput, SequenceId
from charonia_runtime.core.statistics import FailureReason
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.ensembles.model import EnsembleModel
from tests.support.configs import a_tensor
from tests.support.ensembles import ROW, Bench, ComposingModel, a_model, an_ensemble
from tests.support.requests import RecordingSink, a_request

NO_SEQUENCE = {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
CHAIN = [("a", {"IN": "X"}, {"OUT": "t"}), ("b", {"IN": "t"}, {"OUT": "Y"})]
DIAMOND = [
    ("a", {"IN": "X"}, {"OUT": "t"}),
    ("b", {"IN": "X"}, {"OUT": "u"}),
    ("add", {"A": "t", "B": "u"}, {"OUT": "Y"}),
]


def a_chain(**changes):
    return Bench(an_ensemble(CHAIN, **changes), a_model("a"), a_model("b"))


async def test_steps_run_one_after_the_other():
    bench = a_chain()
    request = bench.submit(id="seven")
    assert (len(bench.waiting("a")), len(bench.waiting("b"))) == (1, 0)
    bench.answer("a", OUT=ROW + 1)
    (second,) = bench.waiting("b")
    assert second.inputs["IN"].as_numpy().tolist() == (ROW + 1).tolist()
    bench.answer("b", OUT=ROW + 2)

    response = await request.sink.response()
    assert (response.model_name, response.model_version, response.id) == ("pipeline", 3, "seven")
    assert [tensor.name for tensor in response.outputs] == ["Y"]
    assert response.outputs[0].as_numpy().tolist() == (ROW + 2).tolist()
    assert response.parameters == NO_SEQUENCE
    assert bench.model.in_flight == 0


async def test_steps_that_do_not_need_each_other_run_at_the_same_time():
    bench = Bench(an_ensemble(DIAMOND), a_model("a"), a_model("b"), a_model("add", ("A", "B")))
    request = bench.submit()
    assert (len(bench.waiting("a")), len(bench.waiting("b"))) == (1, 1)
    bench.answer("b", OUT=ROW + 5)
    assert not bench.waiting("add")
    bench.answer("a", OUT=ROW)
    (last,) = bench.waiting("add")
    assert last.inputs["B"].as_numpy().tolist() == (ROW + 5).tolist()
    bench.answer("add")
    await request.sink.response()


async def test_tensors_are_passed_on_without_a_copy():
    bench = a_chain()
    request = bench.submit()
    given = request.inputs["X"].data
    assert bench.waiting("a")[0].inputs["IN"].data is given
    made = Tensor.from_numpy("OUT", ROW)
    bench.answer("a", OUT=made)
    assert bench.waiting("b")[0].inputs["IN"].data is made.data
    bench.answer("b", OUT=made)
    assert (await request.sink.response()).outputs[0].data is made.data


async def test_a_step_asks_for_what_the_request_asks():
    bench = a_chain()
    sequence = SequenceId(7, start=True)
    bench.submit(
        id="seven", parameters={"custom": 1}, sequence=sequence, priority=2, timeout_us=9, callers=("outer",)
    )  # fmt: skip
    (step,) = bench.waiting("a")

    assert (step.model_name, step.model_version, step.id) == ("a", 1, "seven")
    assert (step.parameters, step.sequence, step.priority, step.timeout_us) == ({"custom": 1}, sequence, 2, 9)
    assert (step.callers, [output.name for output in step.outputs]) == (("outer",), ["OUT"])


async def test_only_steps_of_requested_outputs_run():
    steps = [("a", {"IN": "X"}, {"OUT": "Y"}), ("b", {"IN": "X"}, {"OUT": "Z"})]
    bench = Bench(an_ensemble(steps, outputs=("Y", "Z")), a_model("a"), a_model("b"))
    request = bench.submit(outputs=[RequestedOutput("Z")])
    assert not bench.waiting("a")
    bench.answer("b")
    assert [tensor.name for tensor in (await request.sink.response()).outputs] == ["Z"]


async def test_requests_are_checked_like_those_of_any_model():
    bench = a_chain()
    with pytest.raises(InvalidArgumentError, match="unexpected shape for input 'X' for model 'pipeline'"):
        bench.submit({"X": ROW[:, :3]})
    assert (bench.model.in_flight, bench.model.statistics.fail.count) == (0, 0)


# --- what is not there ---


async def test_it_agrees_when_the_models_of_its_steps_do():
    bench = a_chain()
    assert await bench.model.agrees()
    bench["b"].willing = False
    assert not await bench.model.agrees()
    bench.model.wind_up()
    assert not bench["a"].winding_up


async def test_an_optional_input_is_left_out():
    config = an_ensemble(
        [("a", {"A": "X", "B": "W"}, {"OUT": "Y"})], ("X", a_tensor("W", DataType.INT32, 4, optional=True))
    )
    bench = Bench(config, a_model("a", ("A", a_tensor("B", DataType.INT32, 4, optional=True))))
    bench.submit()
    bench.submit({"X": ROW, "W": ROW})

    assert [list(step.inputs) for step in bench.waiting("a")] == [["A"], ["A", "B"]]


async def test_an_output_that_no_step_made():
    bench = Bench(an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})]), a_model("a"))
    request = bench.submit()
    bench["a"].send(bench.waiting("a")[0])

    response = await request.sink.response()
    assert (response.outputs, response.parameters) == ([], {})


async def test_a_tensor_that_no_step_made_is_missing_downstream():
    bench = a_chain()
    bench.submit()
    bench["a"].send(bench.waiting("a")[0])

    assert bench.waiting("b")[0].inputs == {}


async def test_a_step_that_ends_without_an_answer():
    bench = a_chain()
    request = bench.submit()
    bench["a"].end(bench.waiting("a")[0])

    with pytest.raises(InvalidArgumentError) as caught:
        await request.sink.response()
    assert caught.value.message == (
        "in ensemble 'pipeline', unexpected deadlock, at least one output is not set while no more ensemble steps can "
        "be made"
    )


# --- batches ---


@pytest.mark.parametrize(
    ("ensemble_batches", "step_batches", "given", "seen"),
    [
        (True, False, (1, 4), (4,)),
        (True, False, (2, 4), (2, 4)),
        (False, True, (4,), (1, 4)),
        (True, True, (2, 4), (2, 4)),
        (False, False, (4,), (4,)),
    ],
)
async def test_the_batch_dimension_comes_and_goes(ensemble_batches, step_batches, given, seen):
    config = an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})], max_batch_size=8 * ensemble_batches)
    bench = Bench(config, a_model("a", max_batch_size=8 * step_batches))
    request = bench.submit({"X": np.zeros(given, np.int32)})
    (step,) = bench.waiting("a")
    assert step.inputs["IN"].shape == seen
    bench.answer("a", OUT=np.zeros(seen, np.int32))

    expected = given if given[0] != 2 or step_batches else seen
    assert (await request.sink.response()).outputs[0].shape == expected


async def test_a_whole_shape_that_fits_keeps_its_batch_dimension():
    free = a_tensor("IN", DataType.INT32, -1, 4)
    bench = Bench(an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})]), a_model("a", (free,), max_batch_size=0))
    bench.submit()
    assert bench.waiting("a")[0].inputs["IN"].shape == (1, 4)


# --- sequences ---


async def test_a_step_puts_what_follows_into_another_sequence():
    bench = a_chain()
    request = bench.submit(sequence=SequenceId(5, end=True))
    (step,) = bench.waiting("a")
    output = Tensor.from_numpy("OUT", ROW)
    parameters = {"sequence_id": "nine", "sequence_start": True, "other": 1}
    bench["a"].requests.clear()
    step.sink.send(InferenceResponse("a", 1, outputs=[output], parameters=parameters))
    assert bench.waiting("b")[0].sequence == SequenceId("nine", start=True)
    bench.answer("b")

    assert (await request.sink.response()).parameters == {
        "sequence_id": "nine", "sequence_start": True, "sequence_end": False,
    }  # fmt: skip


async def test_answers_say_their_own_sequence():
    bench = a_chain()
    request = bench.submit(sequence=SequenceId(5, end=True))
    bench.answer("a")
    bench.answer("b")
    assert (await request.sink.response()).parameters == {
        "sequence_id": 5, "sequence_start": False, "sequence_end": True,
    }  # fmt: skip


# --- errors and cancellation ---


async def test_an_error_is_answered_at_once():
    bench = Bench(an_ensemble(DIAMOND), a_model("a"), a_model("b"), a_model("add", ("A", "B")))
    request = bench.submit()
    running = bench.waiting("a")[0]
    bench["b"].fail(bench.waiting("b")[0], NotFoundError("chosen"))

    with pytest.raises(NotFoundError, match=r"^in ensemble 'pipeline', chosen$"):
        await request.sink.response()
    assert bench["a"].cancelled == [running]
    assert bench.model.in_flight == 1
    bench.answer("a")
    assert (bench.model.in_flight, bench.waiting("add")) == (0, [])
    assert bench.model.statistics.fail.count == 1
    assert bench.model.statistics.failures[FailureReason.OTHER] == 1


async def test_a_step_that_is_refused():
    bench = a_chain()
    bench["b"].refusal = InvalidArgumentError("not this")
    request = bench.submit()
    bench.answer("a")

    with pytest.raises(InvalidArgumentError, match=r"^in ensemble 'pipeline', not this$"):
        await request.sink.response()
    assert bench.model.in_flight == 0


async def test_nothing_is_answered_before_submit_returns():
    bench = a_chain()
    bench["a"].refusal = UnavailableError("not now")
    request = bench.submit()
    assert request.sink.responses == []
    with pytest.raises(UnavailableError):
        await request.sink.response()


async def test_a_cancelled_request_starts_no_more_steps():
    bench = a_chain()
    request = bench.submit()
    running = bench.waiting("a")[0]
    bench.model.cancel(request)
    assert bench["a"].cancelled == [running]
    bench.answer("a")

    with pytest.raises(CancelledError):
        await request.sink.response()
    assert not bench.waiting("b")
    assert bench.model.statistics.failures[FailureReason.CANCELED] == 1
    bench.model.cancel(request)  # too late, and no error


# --- decoupled ---

REPEAT = [("repeat", {"IN": "X"}, {"OUT": "s"}), ("b", {"IN": "s"}, {"OUT": "Y"})]


def a_stream(**changes):
    return Bench(an_ensemble(REPEAT, **changes), a_model("repeat", decoupled=True), a_model("b"))


def produce(bench, count):
    (producer,) = bench.waiting("repeat")
    for number in range(count):
        bench["repeat"].send(producer, final=False, OUT=ROW + number)
    return producer


async def test_every_response_of_a_step_goes_its_own_way():
    bench = a_stream()
    assert bench.model.config.decoupled
    request = bench.submit()
    producer = produce(bench, 3)
    for number in range(2):
        bench.answer("b", OUT=ROW + 10 * number)
    bench["repeat"].end(producer)
    bench.answer("b", OUT=ROW + 20)

    responses = await request.sink.wait()
    assert [response.outputs[0].as_numpy()[0, 0] for response in responses] == [0, 10, 20]
    assert [response.final for response in responses] == [False, False, True]
    assert (bench.model.statistics.success.count, bench.model.statistics.execution_count) == (1, 1)


async def test_a_stream_that_ends_after_its_last_answer():
    bench = a_stream()
    request = bench.submit()
    producer = produce(bench, 1)
    bench.answer("b")
    bench["repeat"].end(producer)

    first, last = await request.sink.wait()
    assert (first.final, first.flag_only, last.final, last.flag_only) == (False, False, True, True)


async def test_an_empty_stream():
    bench = a_stream()
    request = bench.submit()
    bench["repeat"].end(bench.waiting("repeat")[0])
    (response,) = await request.sink.wait()
    assert response.flag_only


async def test_what_was_made_before_an_error_is_sent_before_it():
    bench = a_stream()
    request = bench.submit()
    producer = produce(bench, 2)
    bench["repeat"].fail(producer, NotFoundError("third"), final=False)
    assert request.sink.responses == []
    bench["repeat"].send(producer, final=False, OUT=ROW)
    assert len(bench.waiting("b")) == 2
    bench.answer("b")
    bench.answer("b")

    responses = await request.sink.wait()
    assert [response.error is None for response in responses] == [True, True, False]
    assert responses[-1].error.message == "in ensemble 'pipeline', third"
    assert bench["repeat"].cancelled
    assert bench.model.in_flight == 1
    bench["repeat"].end(producer)
    assert bench.model.in_flight == 0


# --- limits ---


async def test_a_limit_is_for_each_step_over_all_requests():
    bench = a_chain(most=2)
    requests = [bench.submit(id=str(number)) for number in range(5)]
    assert [step.id for step in bench.waiting("a")] == ["0", "1"]
    bench.answer("a")
    assert [step.id for step in bench.waiting("a")] == ["1", "2"]
    assert [step.id for step in bench.waiting("b")] == ["0"]
    while bench.model.in_flight:
        for name in ("a", "b"):
            assert len(bench.waiting(name)) <= 2
            while bench.waiting(name):
                bench.answer(name)
    for request in requests:
        await request.sink.response()


async def test_a_request_that_waits_for_a_limit_is_cancelled_at_once():
    bench = a_chain(most=1)
    first, second, third = (bench.submit(id=str(number)) for number in range(3))
    bench.model.cancel(second)
    with pytest.raises(CancelledError):
        await second.sink.response()
    bench.answer("a")
    assert [step.id for step in bench.waiting("a")] == ["2"]
    assert not first.sink.responses
    assert not third.sink.responses


async def test_many_waiting_requests_that_are_refused_at_once():
    bench = a_chain(most=1)
    requests = [bench.submit() for _ in range(3000)]
    bench["a"].refusal = UnavailableError("gone")
    bench.answer("a")
    for request in requests[1:]:
        with pytest.raises(UnavailableError):
            await request.sink.response()


async def test_a_limit_holds_a_decoupled_step_back():
    bench = a_stream(most=1)
    bench.submit()
    (producer,) = bench.waiting("repeat")
    resumed = []
    producer.flow.when_ready(lambda: resumed.append("first"))
    produce(bench, 2)
    producer.flow.when_ready(lambda: resumed.append("second"))
    assert resumed == ["first"]
    bench.answer("b")
    assert resumed == ["first", "second"]


async def test_a_step_that_does_not_wait_for_a_limit_fails_its_request_when_too_much_does():
    """Behind the one that runs, two rows of 16 bytes may wait; the answers before the error come first."""
    config, repeat, behind = an_ensemble(REPEAT, most=1), a_model("repeat", decoupled=True), a_model("b")
    bench = Bench(config, repeat, behind, most_waiting_bytes=31)
    request = bench.submit()
    producer = produce(bench, 5)
    assert not request.sink.responses
    assert producer.cancelled
    for number in range(3):
        bench.answer("b", OUT=ROW + number)
    assert [bool(response.error) for response in request.sink.responses] == [False, False, False, True]
    error = request.sink.responses[-1].error
    assert isinstance(error, UnavailableError)
    assert "model 'repeat' sent a response while more than 31 bytes of those before it waited" in error.message

    bench["repeat"].end(producer)
    assert bench.model.in_flight == 0


async def test_a_step_may_send_any_number_of_responses_that_do_not_wait_together():
    config, repeat, behind = an_ensemble(REPEAT, most=1), a_model("repeat", decoupled=True), a_model("b")
    bench = Bench(config, repeat, behind, most_waiting_bytes=31)
    request = bench.submit()
    produce(bench, 3)
    for _ in range(5):
        bench.answer("b", OUT=ROW)
        produce(bench, 1)
    assert [response.error for response in request.sink.responses] == [None] * 5


# --- statistics, labels, life ---


async def test_statistics_sum_up_the_steps():
    bench = a_chain()
    request = bench.submit({"X": np.concatenate([ROW, ROW])})
    bench.answer("a", OUT=np.concatenate([ROW, ROW]))
    bench.answer("b", OUT=np.concatenate([ROW, ROW]))
    await request.sink.response()

    statistics = bench.model.statistics
    assert (statistics.inference_count, statistics.execution_count, statistics.success.count) == (2, 1, 1)
    assert [one.ns for one in (statistics.compute_input, statistics.compute_infer, statistics.compute_output)] == [
        2
    ] * 3
    assert list(statistics.batches) == [2]


async def test_outputs_inherit_labels_and_are_classified():
    model = a_model("a")
    bench = Bench(an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})]), model)
    bench["a"].labels = {"OUT": ["zero", "one", "two", "three"]}
    bench.model = EnsembleModel(bench.model.config, bench.model.config.scheduling, 1, [bench["a"]], labels={})
    assert bench.model.labels == {"Y": ["zero", "one", "two", "three"]}
    request = bench.submit(outputs=[RequestedOutput("Y", classes=2)])
    bench.answer("a", OUT=ROW)

    output = (await request.sink.response()).outputs[0]
    assert output.as_numpy().tolist() == [[b"3:3:three", b"2:2:two"]]
    assert bench.model.in_flight == 0


async def test_outputs_are_written_to_shared_memory_in_order():
    bench = a_stream()
    request = bench.submit(outputs=[RequestedOutput("Y", classes=1)])
    producer = produce(bench, 3)
    for number in range(3):
        bench.answer("b", OUT=ROW + number)
    bench["repeat"].end(producer)

    responses = await request.sink.wait()
    assert [response.outputs[0].as_numpy()[0, 0] for response in responses[:3]] == [b"3:3", b"4:3", b"5:3"]
    await bench.model.drain()


async def test_memory_that_a_request_names_is_resolved():
    memory = bytearray(ROW.tobytes())
    resolve = lambda ref, *, writable: memoryview(memory)  # noqa: E731
    config = an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})])
    copy = ComposingModel(a_model("a"))
    model = EnsembleModel(config, config.scheduling, 1, [copy], labels={}, resolve_memory=resolve)
    given = Tensor("X", DataType.INT32, (1, 4), SharedMemoryRef("in", 16))
    request = a_request(
        "pipeline", {"X": given}, outputs=[RequestedOutput("Y", shared_memory=SharedMemoryRef("out", 16))]
    )
    model.submit(request)
    assert copy.requests[0].inputs["IN"].as_numpy().tolist() == ROW.tolist()
    copy.send(copy.requests[0], OUT=ROW + 1)

    output = (await request.sink.response()).outputs[0]
    assert output.data == SharedMemoryRef("out", 16)
    assert bytes(memory) == (ROW + 1).tobytes()


async def test_a_sink_that_breaks_harms_nobody(caplog):
    class Broken(RecordingSink):
        def send(self, response):
            raise RuntimeError("gone")

    bench = a_chain()
    bench.submit(sink=Broken())
    bench.answer("a")
    bench.answer("b")
    assert bench.model.in_flight == 0
    assert "delivering a response failed" in caplog.text


async def test_closing_waits_for_requests():
    bench = a_chain()
    bench.submit()
    closing = asyncio.create_task(bench.model.close())
    await asyncio.sleep(0)
    assert not closing.done()
    with pytest.raises(UnavailableError):
        bench.submit()
    bench.answer("a")
    bench.answer("b")
    await closing
    with pytest.raises(UnsupportedError):
        await bench.model.update_instances(bench.model.config)
