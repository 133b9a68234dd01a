"""Whatever clients, models and time do: every accepted request is answered finally, exactly once, and counted once."""

import asyncio
import random
import time

import numpy as np
import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.core.scheduling import Direct, DynamicBatching, QueuePolicy, TimeoutAction
from charonia_runtime.engine.execution.model import Model
from tests.support.backends import a_folder, echo, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request

LIMITS = QueuePolicy(default_timeout_us=3000, allow_timeout_override=True, max_queue_size=60)
SCHEDULINGS = {
    "direct": Direct(),
    "dynamic": DynamicBatching(),
    "delayed": DynamicBatching(preferred_batch_sizes=(3, 6), max_queue_delay_us=700),
    "ordered": DynamicBatching(preserve_ordering=True, max_queue_delay_us=300),
    "levels": DynamicBatching(
        priority_levels=2,
        default_priority_level=2,
        default_queue_policy=LIMITS,
        priority_queue_policies={1: QueuePolicy(TimeoutAction.DELAY, default_timeout_us=500)},
        preserve_ordering=True,
    ),
}


def unreliable(chance):
    """Mostly right, sometimes slow, forgetful or raising."""

    def execute(batch):
        match chance.randrange(12):
            case 0:
                time.sleep(0.002)
                echo(batch)
            case 1:
                batch.respond(0, [])
            case 2:
                batch.respond_error(len(batch.requests) - 1, InvalidArgumentError("chosen"), chosen_by_model=True)
                raise ValueError("broken")
            case 3:
                raise UnavailableError("not now")
            case _:
                echo(batch)

    return execute


@pytest.mark.parametrize("scheduling", SCHEDULINGS.values(), ids=SCHEDULINGS)
@pytest.mark.parametrize("traits", [{}, {"any_thread": True}], ids=["threads", "any_thread"])
async def test_nothing_is_lost_or_answered_twice(tmp_path, caplog, scheduling, traits):
    chance = random.Random(7)
    config = a_config(
        "m",
        inputs=(a_tensor("IN", DataType.INT32, 1),),
        outputs=(a_tensor("OUT", DataType.INT32, 1),),
        instance_groups=(InstanceGroup("m_0", InstanceKind.CPU, 3),),
        scheduling=scheduling,
    )
    model = await Model.load(a_folder(tmp_path, "m"), config, fake_backend(unreliable(chance), **traits))
    accepted, refused = [], 0
    for _ in range(60):
        for _ in range(chance.randrange(25)):
            rows = chance.randint(1, 8)
            request = a_request(
                "m", {"IN": np.full((rows, 1), len(accepted), np.int32)}, sink=RecordingSink(),
                priority=chance.randrange(3), timeout_us=chance.choice([0, 0, 100, 2000]),
            )  # fmt: skip
            try:
                model.submit(request)
            except UnavailableError:
                refused += 1
            else:
                accepted.append(request)
        for request in chance.sample(accepted, min(2, len(accepted))):
            model.cancel(request)
        await asyncio.sleep(chance.choice([0, 0, 0.001]))
    await model.drain()
    for index, request in enumerate(accepted):
        (response,) = request.sink.responses
        assert response.final
        if response.error is None and response.outputs:
            assert (response.outputs[0].as_numpy() == index).all()
    statistics = model.statistics
    assert statistics.success.count + statistics.fail.count == len(accepted)
    assert sum(statistics.failures.values()) == statistics.fail.count
    assert statistics.pending == model.in_flight == 0
    assert "delivering a response failed" not in caplog.text
    if not isinstance(scheduling, DynamicBatching) or not scheduling.priority_levels:
        assert refused == 0
    await model.close()


async def test_requests_in_flight_survive_an_update_of_instances(tmp_path):
    def config(count):
        return a_config(
            "m",
            inputs=(a_tensor("IN", DataType.INT32, 1),),
            outputs=(a_tensor("OUT", DataType.INT32, 1),),
            instance_groups=(InstanceGroup("m_0", InstanceKind.CPU, count),),
            scheduling=DynamicBatching(),
        )

    model = await Model.load(a_folder(tmp_path, "m"), config(2), fake_backend(any_thread=True))
    sinks = []
    for count in (4, 1, 3):
        update = asyncio.create_task(model.update_instances(config(count)))
        for _ in range(50):
            sink = RecordingSink()
            model.submit(a_request("m", {"IN": np.zeros((1, 1), np.int32)}, sink=sink))
            sinks.append(sink)
            await asyncio.sleep(0)
        await update
    for sink in sinks:
        await sink.response()
    await model.close()
