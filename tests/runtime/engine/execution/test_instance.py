"""Runners: whatever an instance does, every request of a batch gets exactly one final answer."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest

from charonia_runtime.core.backend import BackendTraits
from charonia_runtime.core.config import InstanceKind, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.execution.answers import AnswerFinisher
from charonia_runtime.engine.execution.instance import Post, make_runner
from tests.support.backends import FakeInstance, FakeLoopInstance, Gate, a_folder, echo, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.requests import a_request

CONFIG = a_config("m", inputs=(a_tensor("IN", DataType.INT32, 1),), outputs=(a_tensor("OUT", DataType.INT32, 1),))
PLACEMENT = Placement("m_0", InstanceKind.CPU)


class Reports:
    """What a runner reports, in order."""

    def __init__(self):
        self.answers = []
        self.hand_overs = []
        self.free = asyncio.Event()

    def answered(self, batch, answers):
        self.answers += answers

    def finished(self, runner, executions, *, free):
        self.hand_overs.append((len(executions), free))
        for batch, answers in executions:
            assert batch.end_ns >= batch.start_ns
            self.answers += answers
        if free:
            self.free.set()

    def responses_to(self, request):
        return [response for asked, response in self.answers if asked is request]


def start(tmp_path, execute=echo, *, config=CONFIG, **traits):
    reports = Reports()
    backend = fake_backend(execute, **traits)(a_folder(tmp_path))
    instance = (FakeLoopInstance if traits.get("on_event_loop") else FakeInstance)(backend, PLACEMENT)
    runner = make_runner(instance, Post(PLACEMENT, 1, config, 3, AnswerFinisher(config, {}), backend.traits), reports)
    return runner, instance, reports


def requests(count, model="m"):
    return [a_request(model, {"IN": np.full((1, 1), index, np.int32)}) for index in range(count)]


async def test_a_batch_runs_in_one_thread_of_its_own(tmp_path):
    runner, instance, reports = start(tmp_path)
    for _ in range(3):
        batch = requests(2)
        runner.begin([batch])
        await reports.free.wait()
        reports.free.clear()
        for index, request in enumerate(batch):
            (response,) = reports.responses_to(request)
            assert (response.model_version, response.final) == (3, True)
            assert response.outputs[0].as_numpy().tolist() == [[index]]
    assert len(instance.threads) == 1
    assert threading.get_ident() not in instance.threads
    await runner.close()
    assert instance.closed


async def test_several_batches_come_back_together(tmp_path):
    runner, instance, reports = start(tmp_path)
    runner.begin([requests(1) for _ in range(5)])
    await reports.free.wait()
    assert instance.batches == [[1]] * 5
    assert len(reports.answers) == 5
    assert [free for _, free in reports.hand_overs] == [False] * (len(reports.hand_overs) - 1) + [True]
    await runner.close()


def raising(error):
    def execute(batch):
        batch.respond(0, [])
        raise error

    return execute


@pytest.mark.parametrize(
    ("raised", "answer", "on_event_loop"),
    [
        (UnavailableError("not now"), UnavailableError("not now"), False),
        (UnavailableError("not now"), UnavailableError("not now"), True),
        (ValueError("no value"), InternalError("no value"), False),
        (ValueError("no value"), InternalError("no value"), True),
        (ValueError(), InternalError("ValueError"), False),
        (SystemExit(3), InternalError("3"), False),
    ],
)
async def test_what_is_raised_goes_to_those_without_an_answer(tmp_path, raised, answer, on_event_loop):
    runner, _, reports = start(tmp_path, raising(raised), on_event_loop=on_event_loop)
    first, second = batch = requests(2)
    runner.begin([batch])
    await reports.free.wait()
    assert [response.error for response in reports.responses_to(first)] == [None]
    (response,) = reports.responses_to(second)
    assert type(response.error) is type(answer)
    assert response.error.message == answer.message
    assert response.failed
    assert bool(response.error.traceback_text) == isinstance(answer, InternalError)
    await runner.close()


@pytest.mark.parametrize("on_event_loop", [False, True])
async def test_forgotten_requests_get_an_error(tmp_path, on_event_loop):
    runner, instance, reports = start(tmp_path, lambda batch: None, on_event_loop=on_event_loop)
    batch = requests(2)
    runner.begin([batch])
    if on_event_loop:
        instance.running[0][1]()
    await reports.free.wait()
    for request in batch:
        (response,) = reports.responses_to(request)
        assert isinstance(response.error, InternalError)
        assert response.error.message == "expected a single response, got 0"
    await runner.close()


async def test_responses_of_a_running_batch_leave_when_flushed(tmp_path):
    gate = Gate(lambda batch: batch.end(0))

    def execute(batch):
        batch.respond(0, [], final=False)
        batch.flush()
        gate(batch)

    runner, _, reports = start(tmp_path, execute)
    (request,) = batch = requests(1)
    runner.begin([batch])
    await asyncio.to_thread(gate.entered.acquire)
    assert [response.final for response in reports.responses_to(request)] == [False]
    gate.open()
    await reports.free.wait()
    assert [response.final for response in reports.responses_to(request)] == [False, True]
    await runner.close()


async def test_closing_waits_for_the_running_batch(tmp_path):
    gate = Gate()
    runner, instance, reports = start(tmp_path, gate)
    runner.begin([requests(1)])
    closing = asyncio.create_task(runner.close())
    await asyncio.to_thread(gate.entered.acquire)
    assert not instance.closed
    gate.open()
    await closing
    assert instance.closed
    assert len(reports.answers) == 1


async def test_an_instance_that_cannot_close_is_only_logged(tmp_path, caplog):
    runner, instance, _ = start(tmp_path)
    instance.close = lambda: 1 / 0
    await runner.close()
    assert "closing the instance failed" in caplog.text


@pytest.mark.parametrize("on_event_loop", [False, True])
async def test_nothing_of_a_batch_outlives_its_answers(tmp_path, on_event_loop):
    """20 GB of inputs must not wait for the garbage collector."""
    runner, instance, reports = start(tmp_path, on_event_loop=on_event_loop)
    array = np.zeros((1, 1), np.int32)
    alive = weakref.ref(array)
    gc.disable()
    try:
        runner.begin([[a_request("m", {"IN": array})]])
        if on_event_loop:
            instance.running.pop()[1]()
        await reports.free.wait()
        reports.answers.clear()
        del array
        # The thread may still be about to wait for its next batch.
        await asyncio.to_thread(lambda: None)
        for _ in range(1000):
            if alive() is None:
                break
            await asyncio.sleep(0.001)
        assert alive() is None
    finally:
        gc.enable()
    await runner.close()


@pytest.mark.parametrize("decoupled", [True, False])
async def test_loop_instances_may_answer_after_they_are_free(tmp_path, decoupled):
    config = a_config("m", decoupled=decoupled)
    traits = {"on_event_loop": True, "answers_later": not decoupled}
    runner, instance, reports = start(tmp_path, lambda batch: None, config=config, **traits)
    (request,) = batch = requests(1)
    runner.begin([batch])
    running, done = instance.running[0]
    done()
    await reports.free.wait()
    assert reports.answers == []
    running.respond(0, [], final=False)
    running.end(0)
    running.flush()
    assert [response.final for response in reports.responses_to(request)] == [False, True]
    await runner.close()


async def test_decoupled_requests_without_an_end_are_ended_by_closing(tmp_path):
    config = a_config("m", decoupled=True)
    runner, instance, reports = start(tmp_path, lambda batch: None, config=config, on_event_loop=True)
    (request,) = batch = requests(1)
    runner.begin([batch])
    instance.running[0][1]()
    await reports.free.wait()
    await runner.close()
    assert [response.final for response in reports.responses_to(request)] == [True]


async def test_done_twice_frees_once(tmp_path):
    mistakes = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mistakes.append(context))
    runner, instance, reports = start(tmp_path, on_event_loop=True)
    runner.begin([requests(1)])
    instance.running[0][1]()
    instance.running[0][1]()
    await reports.free.wait()
    runner.begin([requests(1)])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(reports.hand_overs) == 1
    instance.running[1][1]()
    await runner.close()
    assert len(reports.hand_overs) == 2
    assert mistakes == []


async def test_batches_begin_together_and_free_the_instance_with_the_last(tmp_path):
    runner, instance, reports = start(tmp_path, on_event_loop=True)
    runner.begin([requests(1) for _ in range(3)])
    assert instance.more == [True, True, False]
    dones = [done for _, done in instance.running]
    dones[1]()
    dones[0]()
    await asyncio.sleep(0)
    assert reports.hand_overs == [(2, False)]
    dones[2]()
    assert reports.hand_overs == [(2, False), (1, True)]
    assert len(reports.answers) == 3
    await runner.close()


async def test_closing_waits_for_every_batch_of_a_hand_over(tmp_path):
    runner, instance, _ = start(tmp_path, on_event_loop=True)
    runner.begin([requests(1) for _ in range(2)])
    closing = asyncio.create_task(runner.close())
    instance.running[0][1]()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not instance.closed
    instance.running[1][1]()
    await closing
    assert instance.closed


async def test_only_brief_executions_share_a_hand_over(tmp_path):
    def execute(duration_ns):
        def run(batch):
            batch.inputs_ready_ns = batch.start_ns + 1
            batch.outputs_ready_ns = batch.inputs_ready_ns + duration_ns
            echo(batch)

        return run

    for duration_ns, decoupled, expected in [(1000, False, 16), (10_000_000, False, 1), (1000, True, 1)]:
        config = a_config("m", inputs=CONFIG.inputs, outputs=CONFIG.outputs, decoupled=decoupled)
        runner, instance, _ = start(tmp_path, execute(duration_ns), config=config, on_event_loop=True)
        for index in range(100):
            runner.begin([requests(1)])
            instance.running[index][1]()
        assert runner.at_once == expected
        await runner.close()


@pytest.mark.parametrize(
    ("traits", "changes", "at_hand"),
    [
        (BackendTraits(), {}, False),
        (BackendTraits(any_thread=True), {}, True),
        (BackendTraits(any_thread=True), {"decoupled": True}, False),
        (BackendTraits(any_thread=True), {"inputs": (a_tensor("IN", DataType.INT32, -1),)}, False),
        (BackendTraits(any_thread=True), {"inputs": (a_tensor("IN", DataType.BYTES, 1),)}, False),
        (BackendTraits(any_thread=True, on_event_loop=True), {}, False),
    ],
)
async def test_which_instances_may_run_on_the_loop(tmp_path, traits, changes, at_hand):
    config = a_config("m", **{"inputs": CONFIG.inputs, **changes})
    instance = (FakeLoopInstance if traits.on_event_loop else FakeInstance)(
        fake_backend()(a_folder(tmp_path)), PLACEMENT
    )
    runner = make_runner(instance, Post(PLACEMENT, 1, config, 1, AnswerFinisher(config, {}), traits), Reports())
    assert runner.at_hand == at_hand
    await runner.close()


async def test_execution_on_the_loop_answers_like_the_thread(tmp_path):
    runner, instance, reports = start(tmp_path, any_thread=True)
    batch = requests(2)
    executed, answers = runner.execute(batch)
    assert executed.complete
    assert [response.outputs[0].as_numpy().tolist() for _, response in answers] == [[[0]], [[1]]]
    assert instance.threads == {threading.get_ident()}
    assert reports.hand_overs == []
    await runner.close()


async def test_classification_is_made_before_the_answer_leaves(tmp_path):
    runner, _, reports = start(tmp_path)
    request = a_request(
        "m", {"IN": Tensor.from_numpy("IN", np.array([[7]], np.int32))}, outputs=[RequestedOutput("OUT", 1)]
    )
    runner.begin([[request]])
    await reports.free.wait()
    (response,) = reports.responses_to(request)
    assert response.outputs[0].as_numpy().tolist() == [[b"7:0"]]
    await runner.close()


async def test_unclassifiable_answers_are_errors_but_no_failures(tmp_path):
    config = a_config("m", inputs=(a_tensor("IN", DataType.BOOL, 1),), outputs=(a_tensor("OUT", DataType.BOOL, 1),))
    runner, _, reports = start(tmp_path, config=config)
    request = a_request("m", {"IN": np.array([[True]])}, outputs=[RequestedOutput("OUT", 1)])
    runner.begin([[request]])
    await reports.free.wait()
    (response,) = reports.responses_to(request)
    assert isinstance(response.error, InvalidArgumentError)
    assert not response.failed
    await runner.close()
