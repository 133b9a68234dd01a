"""Models that share resources: nothing runs above the budget, everything is answered, what waits can still change."""

import asyncio
import threading

import numpy as np
import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind, RateLimiterResource
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.scheduling import Direct, DynamicBatching, QueuePolicy
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.execution.rate_limiter import RateLimiter, ResourceLimit
from tests.support.backends import Gate, a_folder, echo, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request

FIELDS = {"inputs": (a_tensor("IN", DataType.INT32, 1),), "outputs": (a_tensor("OUT", DataType.INT32, 1),)}


async def load(tmp_path, backend, limiter, *, needs=1, count=1, priority=1, scheduling=None):
    resources = (RateLimiterResource("R", needs),)
    groups = (InstanceGroup("m_0", InstanceKind.CPU, count, resources=resources, priority=priority),)
    config = a_config("m", **FIELDS, instance_groups=groups, scheduling=scheduling or DynamicBatching())
    return await Model.load(a_folder(tmp_path, "m", 3), config, backend, limiter=limiter)


def submit(model, value=0, **fields):
    sink = RecordingSink()
    request = a_request("m", {"IN": np.full((1, 1), value, np.int32)}, sink=sink, **fields)
    model.submit(request)
    return request, sink


def batches(backend):
    return [len(rows) for instance in backend.made[0].instances for rows in instance.batches]


class Meter:
    """An execution that notes how many run at the same time."""

    def __init__(self):
        self.running = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, batch):
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        echo(batch)
        with self._lock:
            self.running -= 1


@pytest.mark.parametrize("scheduling", [Direct(), DynamicBatching()])
async def test_models_share_a_budget_and_everything_is_answered(tmp_path, scheduling):
    meter, limiter = Meter(), RateLimiter([ResourceLimit("R", 2)])
    models = [
        await load(tmp_path, fake_backend(meter, any_thread=True), limiter, needs=needs, count=2, scheduling=scheduling)
        for needs in (1, 1, 2)
    ]

    sinks = [submit(model, value)[1] for value in range(100) for model in models]
    answers = await asyncio.gather(*(sink.response() for sink in sinks))

    assert [int(answer.outputs[0].as_numpy()[0, 0]) for answer in answers] == [v for v in range(100) for _ in models]
    assert meter.most <= 2
    assert not any(limiter.used().values())
    for model in models:
        await model.close()


async def test_what_waits_for_its_turn_still_grows(tmp_path):
    gate, limiter = Gate(), RateLimiter()
    backend = fake_backend()
    holder = await load(tmp_path, fake_backend(gate), limiter)
    waiter = await load(tmp_path, backend, limiter)
    _, held = submit(holder)
    await asyncio.to_thread(gate.entered.acquire)

    sinks = []
    for value in range(3):
        sinks.append(submit(waiter, value)[1])
        await asyncio.sleep(0)
    assert waiter.statistics.pending == 3
    gate.open()
    for sink in [held, *sinks]:
        await sink.response()

    assert batches(backend) == [3]
    await holder.close()
    await waiter.close()


async def test_what_waits_for_its_turn_can_be_cancelled_and_expires(tmp_path):
    gate, limiter = Gate(), RateLimiter()
    holder = await load(tmp_path, fake_backend(gate), limiter)
    backend = fake_backend()
    policy = QueuePolicy(default_timeout_us=20_000, allow_timeout_override=True)
    waiter = await load(tmp_path, backend, limiter, scheduling=DynamicBatching(default_queue_policy=policy))
    _, held = submit(holder)
    await asyncio.to_thread(gate.entered.acquire)
    cancelled, cancelled_sink = submit(waiter)
    _, expired_sink = submit(waiter)
    await asyncio.sleep(0)

    waiter.cancel(cancelled)

    with pytest.raises(CancelledError):
        await cancelled_sink.response()
    with pytest.raises(UnavailableError, match="Request timeout expired"):
        await expired_sink.response()
    gate.open()
    await held.response()
    assert batches(backend) == []
    await holder.close()
    await waiter.close()


async def test_a_batch_held_back_leaves_the_turn_to_others(tmp_path):
    limiter = RateLimiter()
    held = fake_backend()
    patient = await load(
        tmp_path, held, limiter, scheduling=DynamicBatching(preferred_batch_sizes=(4,), max_queue_delay_us=50_000)
    )
    other = await load(tmp_path, fake_backend(), limiter)

    _, waiting = submit(patient)
    _, quick = submit(other)
    await quick.response()
    assert not waiting.ended
    await waiting.response()

    assert batches(held) == [1]
    await patient.close()
    await other.close()


async def test_instances_that_could_never_run_are_refused_before_they_are_made(tmp_path):
    backend = fake_backend()

    with pytest.raises(InvalidArgumentError, match='Resource count for "R" is limited to 0'):
        await load(tmp_path, backend, RateLimiter([ResourceLimit("Q", 1)]))

    assert backend.made[0].instances == []


async def test_a_model_that_closes_lets_others_run(tmp_path):
    gate, limiter = Gate(), RateLimiter()
    first = await load(tmp_path, fake_backend(gate), limiter)
    second = await load(tmp_path, fake_backend(), limiter)
    _, running = submit(first)
    await asyncio.to_thread(gate.entered.acquire)
    _, left = submit(first)
    _, waiting = submit(second)
    await asyncio.sleep(0)

    closing = asyncio.create_task(first.close())
    await asyncio.sleep(0)
    gate.open()
    await closing

    await running.response()
    with pytest.raises(UnavailableError, match="Server is stopping"):
        await left.response()
    await waiting.response()
    await second.close()
