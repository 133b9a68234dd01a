"""A loaded model from `load` to `close`, with a backend under the test's control."""

import asyncio
import threading
import time

import numpy as np
import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from charonia_runtime.core.scheduling import Direct, DynamicBatching, QueuePolicy
from charonia_runtime.core.statistics import FailureReason
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.execution.pace import Pace
from tests.support.backends import Gate, a_folder, echo, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request

FIELDS = {"inputs": (a_tensor("IN", DataType.INT32, 1),), "outputs": (a_tensor("OUT", DataType.INT32, 1),)}


def config(*, count=1, **changes):
    groups = (InstanceGroup("m_0", InstanceKind.CPU, count),)
    return a_config("m", **{**FIELDS, "instance_groups": groups, "scheduling": DynamicBatching(), **changes})


async def load(tmp_path, backend, model_config=None, **options):
    return await Model.load(a_folder(tmp_path, "m", 3), model_config or config(), backend, **options)


def submit(model, value=0, **fields):
    sink = RecordingSink()
    request = a_request("m", {"IN": np.full((1, 1), value, np.int32)}, sink=sink, **fields)
    model.submit(request)
    return request, sink


async def turn():
    """Let the loop do what waits for its next turns."""
    for _ in range(3):
        await asyncio.sleep(0)


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what a thread does has no event
        await asyncio.sleep(0.001)


async def busy(model, gate):
    """Have an instance execute a request that waits at the gate."""
    request, sink = submit(model)
    await asyncio.to_thread(gate.entered.acquire)
    return request, sink


def batches(backend):
    return [batch for instance in backend.made[0].instances for batch in instance.batches]


# --- requests ---


@pytest.mark.parametrize("scheduling", [Direct(), DynamicBatching()])
@pytest.mark.parametrize("any_thread", [False, True])
async def test_every_request_gets_its_own_answer(tmp_path, scheduling, any_thread):
    backend = fake_backend(any_thread=any_thread)
    model = await load(tmp_path, backend, config(scheduling=scheduling, count=2))
    for _ in range(40):
        sinks = [submit(model, value)[1] for value in range(20)]
        for value, sink in enumerate(sinks):
            response = await sink.response()
            assert response.outputs[0].as_numpy().tolist() == [[value]]
            assert (response.model_name, response.model_version) == ("m", 3)
    assert model.in_flight == 0
    assert (model.statistics.success.count, model.statistics.inference_count) == (800, 800)
    assert model.statistics.execution_count == len(batches(backend))
    if scheduling == Direct():
        assert batches(backend) == [[1]] * 800
    await model.close()


@pytest.mark.parametrize("scheduling", [Direct(), DynamicBatching()])
async def test_brief_executions_run_on_the_loop(tmp_path, monkeypatch, scheduling):
    monkeypatch.setattr(Pace, "is_brief", property(lambda self: True))
    backend = fake_backend(any_thread=True)
    model = await load(tmp_path, backend, config(scheduling=scheduling, count=2))
    sinks = [submit(model, value)[1] for value in range(20)]
    assert not any(sink.ended for sink in sinks), "never before submit returns"
    for value, sink in enumerate(sinks):
        assert (await sink.response()).outputs[0].as_numpy().tolist() == [[value]]
    assert {thread for instance in backend.made[0].instances for thread in instance.threads} == {threading.get_ident()}
    assert model.statistics.success.count == 20
    assert model.statistics.pending == model.in_flight == 0
    await model.close()


async def test_requests_held_back_on_the_loop_run_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(Pace, "is_brief", property(lambda self: True))
    policy = QueuePolicy(default_timeout_us=10_000_000)
    scheduling = DynamicBatching(max_queue_delay_us=20_000, default_queue_policy=policy)
    backend = fake_backend(any_thread=True)
    model = await load(tmp_path, backend, config(scheduling=scheduling))
    sinks = [submit(model)[1] for _ in range(9)]
    for sink in sinks:
        await sink.response()
    assert batches(backend) == [[1] * 8, [1]]
    await model.close()


async def test_a_long_queue_on_the_loop_leaves_it_to_others(tmp_path, monkeypatch):
    """Executions take 200 us here, so a turn of the loop holds a few of them, not all."""
    monkeypatch.setattr(Pace, "is_brief", property(lambda self: True))

    def execute(batch):
        time.sleep(0.0002)
        echo(batch)

    model = await load(tmp_path, fake_backend(execute, any_thread=True), config(scheduling=Direct()))
    sinks = [submit(model)[1] for _ in range(30)]
    turns = 0
    while not sinks[-1].ended:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10
    await model.close()


async def test_what_arrives_in_one_turn_runs_together(tmp_path):
    backend = fake_backend()
    model = await load(tmp_path, backend)
    for sink in [submit(model)[1] for _ in range(11)]:
        await sink.wait()
    assert batches(backend) == [[1] * 8, [1] * 3]
    await model.close()


async def test_refused_requests_leave_no_trace(tmp_path):
    model = await load(tmp_path, fake_backend())
    sink = RecordingSink()
    with pytest.raises(InvalidArgumentError):
        model.submit(a_request("m", {}, sink=sink))
    assert sink.responses == []
    assert model.in_flight == model.statistics.pending == model.statistics.fail.count == 0
    await model.close()


async def test_full_queue_refuses_without_counting(tmp_path):
    gate = Gate()
    policy = QueuePolicy(max_queue_size=1)
    model = await load(tmp_path, fake_backend(gate), config(scheduling=DynamicBatching(default_queue_policy=policy)))
    await busy(model, gate)
    submit(model)
    with pytest.raises(UnavailableError, match="Exceeds maximum queue size"):
        submit(model)
    assert model.in_flight == 2
    assert model.statistics.fail.count == 0
    gate.open(2)
    await model.drain()
    await model.close()


async def test_timeouts_are_told_while_every_instance_is_busy(tmp_path):
    gate = Gate()
    policy = QueuePolicy(default_timeout_us=1000)
    model = await load(tmp_path, fake_backend(gate), config(scheduling=DynamicBatching(default_queue_policy=policy)))
    await busy(model, gate)
    _, sink = submit(model)
    with pytest.raises(UnavailableError, match=r"^Request timeout expired$"):
        await sink.response()
    assert model.statistics.failures[FailureReason.REJECTED] == 1
    assert model.statistics.pending == 0
    gate.open()
    await model.drain()
    await model.close()


async def test_a_lone_request_waits_no_longer_than_the_delay(tmp_path):
    backend = fake_backend()
    model = await load(tmp_path, backend, config(scheduling=DynamicBatching(max_queue_delay_us=20_000)))
    loop = asyncio.get_running_loop()
    start = loop.time()
    await submit(model)[1].response()
    assert 0.019 <= loop.time() - start < 5
    sinks = [submit(model)[1] for _ in range(8)]
    for sink in sinks:
        await sink.response()
    assert batches(backend) == [[1], [1] * 8]
    await model.close()


async def test_cancelling_a_waiting_request(tmp_path):
    gate = Gate()
    backend = fake_backend(gate)
    model = await load(tmp_path, backend)
    running, running_sink = await busy(model, gate)
    waiting, sink = submit(model)
    model.cancel(waiting)
    with pytest.raises(CancelledError) as caught:
        await sink.response()
    assert caught.value.message == ""
    assert model.statistics.failures[FailureReason.CANCELED] == 1
    model.cancel(waiting)
    model.cancel(running)
    assert running.cancelled
    gate.open()
    await running_sink.response()
    assert batches(backend) == [[1]]
    await model.close()


async def test_failures_are_counted_by_whose_they_are(tmp_path):
    def execute(batch):
        batch.respond_error(0, InternalError("chosen"), chosen_by_model=True)
        raise ValueError("broken")

    model = await load(tmp_path, fake_backend(execute))
    sinks = [submit(model)[1] for _ in range(3)]
    for sink in sinks:
        await sink.wait()
    statistics = model.statistics
    assert (statistics.success.count, statistics.fail.count, statistics.execution_count) == (1, 2, 1)
    assert statistics.failures[FailureReason.BACKEND] == 2
    assert statistics.inference_count == 1
    assert statistics.last_inference_ms > 0
    await model.close()


async def test_statistics_of_one_batch(tmp_path):
    model = await load(tmp_path, fake_backend())
    for sink in [submit(model)[1] for _ in range(4)]:
        await sink.wait()
    statistics = model.statistics
    assert statistics.success.count == statistics.queue.count == statistics.compute_infer.count == 4
    ((size, batch),) = statistics.batches.items()
    assert (size, batch.compute_infer.count) == (4, 1)
    assert statistics.compute_infer.ns == 4 * batch.compute_infer.ns
    assert statistics.success.ns >= statistics.queue.ns + statistics.compute_infer.ns
    await model.close()


async def test_pending_counts_what_waits(tmp_path):
    gate = Gate()
    model = await load(tmp_path, fake_backend(gate))
    await busy(model, gate)
    submit(model)
    submit(model)
    assert (model.statistics.pending, model.in_flight) == (2, 3)
    gate.open(2)
    await model.drain()
    assert (model.statistics.pending, model.in_flight) == (0, 0)
    await model.close()


async def test_preserve_ordering_across_instances(tmp_path):
    gates = [Gate(), Gate()]
    turns = iter(gates)
    backend = fake_backend(lambda batch: next(turns)(batch))  # noqa: PLW0108 - a turn for each batch
    scheduling = DynamicBatching(preserve_ordering=True)
    model = await load(tmp_path, backend, config(count=2, scheduling=scheduling))
    _, first = await busy(model, gates[0])
    _, second = await busy(model, gates[1])
    waiting, third = submit(model)
    model.cancel(waiting)
    gates[1].open()
    await until(lambda: model.in_flight == 1)
    assert not first.ended
    assert not second.ended
    assert not third.ended
    gates[0].open()
    await first.response()
    assert second.ended
    assert third.ended
    await model.close()


async def test_a_broken_sink_harms_nobody_else(tmp_path, caplog):
    class BrokenSink(RecordingSink):
        def send(self, response):
            raise ValueError("broken sink")

    model = await load(tmp_path, fake_backend())
    model.submit(a_request("m", {"IN": np.zeros((1, 1), np.int32)}, sink=BrokenSink()))
    await submit(model)[1].response()
    assert "delivering a response failed" in caplog.text
    assert model.in_flight == 0
    await model.close()


async def test_the_schedulers_hook_waits_for_company_once(tmp_path):
    backend = fake_backend()
    model = await load(tmp_path, backend, delay_scheduler=3)
    sinks = []
    for _ in range(3):
        assert batches(backend) == []
        sinks.append(submit(model)[1])
        await turn()
    for sink in sinks:
        await sink.response()
    await submit(model)[1].response()
    assert batches(backend) == [[1] * 3, [1]]
    await model.close()


async def test_a_model_is_ready_while_one_of_its_instances_is(tmp_path):
    backend = fake_backend(echo, on_event_loop=True)
    model = await load(tmp_path, backend, config(count=2))
    first, second = backend.made[0].instances
    assert model.ready
    first.ready = False
    assert model.ready
    second.ready = False
    assert not model.ready
    first.ready = True
    assert model.ready
    await model.close()


async def test_a_model_agrees_when_all_of_its_instances_that_live_do(tmp_path):
    backend = fake_backend(echo, on_event_loop=True)
    model = await load(tmp_path, backend, config(count=2))
    first, second = backend.made[0].instances
    assert await model.agrees()
    first.willing = False
    assert not await model.agrees()
    first.ready = False
    assert await model.agrees()
    second.willing = False
    assert not await model.agrees()
    await model.close()


async def test_threads_have_no_say(tmp_path):
    model = await load(tmp_path, fake_backend())
    assert await model.agrees()
    model.wind_up()
    await model.close()


async def test_instances_hear_that_the_model_winds_up(tmp_path):
    backend = fake_backend(echo, on_event_loop=True)
    model = await load(tmp_path, backend, config(count=2))
    instances = backend.made[0].instances
    assert [instance.winding_up for instance in instances] == [False, False]
    model.wind_up()
    assert [instance.winding_up for instance in instances] == [True, True]
    await model.close()


async def test_instances_hear_of_cancellations_until_they_are_closed(tmp_path):
    backend = fake_backend(echo, on_event_loop=True)
    model = await load(tmp_path, backend)
    (instance,) = backend.made[0].instances
    request, sink = submit(model)
    while not instance.running:  # noqa: ASYNC110
        await asyncio.sleep(0)
    model.cancel(request)
    assert (request.cancelled, instance.cancellations) == (True, 1)
    closing = asyncio.create_task(model.close())
    await asyncio.sleep(0)
    model.cancel(request)
    assert instance.cancellations == 2
    instance.running.pop()[1]()
    await sink.wait()
    await closing
    model.cancel(request)
    assert instance.cancellations == 2


async def test_surplus_instances_wind_up(tmp_path):
    backend = fake_backend(echo, on_event_loop=True)
    model = await load(tmp_path, backend, config(count=2))
    instances = backend.made[0].instances
    await model.update_instances(config(count=1))
    assert sorted((instance.winding_up, instance.closed) for instance in instances) == [(False, False), (True, True)]
    await model.close()


async def test_a_loop_instance(tmp_path):
    backend = fake_backend(echo, on_event_loop=True)
    model = await load(tmp_path, backend)
    sinks = [submit(model)[1] for _ in range(20)]
    (instance,) = backend.made[0].instances
    while not all(sink.ended for sink in sinks):
        await asyncio.sleep(0)
        if instance.running:
            instance.running.pop()[1]()
    assert model.statistics.execution_count == 3
    await model.close()


# --- life cycle ---


async def test_load_and_close_in_order(tmp_path):
    backend = fake_backend()
    model = await load(tmp_path, backend, config(count=2))
    await model.close()
    (made,) = backend.made
    assert made.steps == ["construct", "auto_complete", "load", "create_instance", "create_instance", "close"]
    assert made.closed


async def test_without_auto_completion(tmp_path):
    backend = fake_backend()
    model = await load(tmp_path, backend, auto_complete=False)
    await model.close()
    assert "auto_complete" not in backend.made[0].steps


@pytest.mark.parametrize("step", ["construct", "auto_complete", "load", "create_instance"])
@pytest.mark.parametrize(
    ("raised", "told"), [(UnavailableError("no"), UnavailableError), (MemoryError("too big"), InternalError)]
)
async def test_failing_loads_close_what_was_made(tmp_path, step, raised, told):
    backend = fake_backend(failures={step: raised})
    with pytest.raises(told) as caught:
        await load(tmp_path, backend, config(count=2))
    assert caught.value.message == str(raised)
    assert backend.made[0].closed == (step != "construct")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_load_is_closed_once_it_is_over(tmp_path, fails):
    began, may_go_on = threading.Event(), threading.Event()

    class Slow(fake_backend(failures={"create_instance": UnavailableError("no")} if fails else {})):
        def load(self, config):
            began.set()
            assert may_go_on.wait(20)
            super().load(config)

    loading = asyncio.create_task(load(tmp_path, Slow))
    await asyncio.to_thread(began.wait)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    may_go_on.set()
    await until(lambda: Slow.made[0].closed)


async def test_closing_answers_everything(tmp_path):
    gate = Gate()
    backend = fake_backend(gate)
    model = await load(tmp_path, backend)
    _, running = await busy(model, gate)
    _, waiting = submit(model)
    closing = asyncio.create_task(model.close())
    await turn()
    with pytest.raises(UnavailableError):
        await waiting.response()
    with pytest.raises(UnavailableError, match="has stopped accepting new inference requests"):
        submit(model)
    gate.open()
    await running.response()
    await closing
    assert backend.made[0].closed
    assert model.in_flight == 0


async def test_draining_waits_for_the_last_answer(tmp_path):
    gate = Gate()
    model = await load(tmp_path, fake_backend(gate))
    await model.drain()
    _, sink = await busy(model, gate)
    draining = [asyncio.create_task(model.drain()) for _ in range(2)]
    await turn()
    assert not any(task.done() for task in draining)
    gate.open()
    await asyncio.gather(*draining)
    assert sink.ended
    await model.close()


def groups(*counts):
    kinds = [
        InstanceGroup(f"g{index}", InstanceKind.CPU, count, host_policy=str(index))
        for index, count in enumerate(counts)
    ]
    return config(instance_groups=tuple(kinds))


@pytest.mark.parametrize(
    ("before", "after", "made"), [((2,), (3,), 3), ((3,), (1,), 3), ((1, 2), (2, 1), 4), ((2,), (2,), 2)]
)
async def test_instances_come_and_go_without_a_reload(tmp_path, before, after, made):
    backend = fake_backend()
    model = await load(tmp_path, backend, groups(*before))
    await model.update_instances(groups(*after))
    (only,) = backend.made
    open_instances = [instance for instance in only.instances if not instance.closed]
    assert len(only.instances) == made
    assert sorted(instance.placement.host_policy for instance in open_instances) == sorted(
        str(index) for index, count in enumerate(after) for _ in range(count)
    )
    assert [group.count for group in model.config.instance_groups] == list(after)
    await submit(model)[1].response()
    await model.close()


async def test_a_busy_instance_finishes_before_it_goes(tmp_path):
    gate = Gate()
    backend = fake_backend(gate)
    model = await load(tmp_path, backend, config(count=2))
    sinks = [(await busy(model, gate))[1] for _ in range(2)]
    updating = asyncio.create_task(model.update_instances(config(count=1)))
    gate.open(2)
    for sink in sinks:
        await sink.response()
    await updating
    assert sorted(instance.closed for instance in backend.made[0].instances) == [False, True]
    await model.close()


async def test_an_update_that_fails_changes_nothing(tmp_path):
    backend = fake_backend()
    model = await load(tmp_path, backend)
    backend.failures["create_instance"] = UnavailableError("no room")
    with pytest.raises(UnavailableError, match="no room"):
        await model.update_instances(config(count=3))
    assert [group.count for group in model.config.instance_groups] == [1]
    await submit(model)[1].response()
    await model.close()


async def test_passive_instances_get_no_requests(tmp_path):
    backend = fake_backend()
    passive = (InstanceGroup("a", InstanceKind.CPU, 1), InstanceGroup("b", InstanceKind.CPU, 1, passive=True))
    model = await load(tmp_path, backend, config(instance_groups=passive))
    for _ in range(4):
        await asyncio.gather(*(submit(model)[1].wait() for _ in range(9)))
    used = {instance.placement.passive for instance in backend.made[0].instances if instance.batches}
    assert used == {False}
    await model.close()
