"""The cache in front of real models with a backend under control: what is answered, when, and how it is counted."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from charonia_runtime.core.batch import Batch
from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InvalidArgumentError, UnavailableError, UnknownError
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.scheduling import DynamicBatching, QueuePolicy
from charonia_runtime.core.tensor import SharedMemoryRef
from charonia_runtime.engine.caches.local import Cache
from charonia_runtime.engine.execution.cached_model import CachedModel
from charonia_runtime.engine.execution.model import Model
from tests.support.backends import Gate, a_folder, fake_backend
from tests.support.requests import RecordingSink, a_request

CONFIG = ModelConfig(
    "simple",
    backend="fake",
    max_batch_size=8,
    inputs=(TensorSpec("INPUT0", DataType.INT32, (-1,)),),
    outputs=(TensorSpec("OUTPUT0", DataType.INT32, (-1,)),),
    instance_groups=(InstanceGroup("simple", InstanceKind.CPU, 1),),
    response_cache=True,
)
ONE = np.array([[1, 2, 3]], np.int32)
TWO = np.array([[4, 5, 6]], np.int32)


class RemoteCache:
    """A cache that answers when the test says so."""

    use: CacheUse | None = None

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.reached = asyncio.Event()
        self.reached.set()

    async def start(self):
        pass

    async def look_up(self, key):
        await self.reached.wait()
        return self.entries.get(key)

    def insert(self, key, parts):
        self.entries[key] = b"".join(parts)

    async def close(self):
        pass


async def cached(tmp_path, cache=None, backend=None, config=CONFIG, **options):
    model = await Model.load(a_folder(tmp_path), config, backend or fake_backend(), **options)
    return CachedModel(model, cache or Cache({"size": "1000000"}), **options)


async def ask(model, array=ONE, **fields):
    sink = RecordingSink()
    model.submit(a_request(inputs={"INPUT0": array}, sink=sink, **fields))
    return await sink.response()


def executions(backend):
    return [size for instance in backend.made[0].instances for size in instance.batches]


async def test_the_second_answer_is_the_first_with_its_own_id(tmp_path):
    backend = fake_backend()
    model = await cached(tmp_path, backend=backend)

    first, second = await ask(model, id="a"), await ask(model, id="b")

    assert (first.id, second.id) == ("a", "b")
    assert second.outputs[0].as_numpy().tolist() == ONE.tolist()
    assert replace(first, id="") == replace(second, id="")
    assert executions(backend) == [[1]]
    await model.close()


async def test_hits_and_misses_are_counted_as_triton_counts_them(tmp_path):
    """A hit is a success that waited and computed nothing; a miss lasts as long as look-up and insertion."""
    model = await cached(tmp_path)
    await ask(model)
    await ask(model)
    await ask(model, TWO)
    await ask(model)

    counted = model.statistics
    assert (counted.cache_hit.count, counted.cache_miss.count) == (2, 2)
    assert (counted.success.count, counted.queue.count, counted.compute_infer.count) == (4, 4, 2)
    assert (counted.inference_count, counted.execution_count) == (2, 2)
    assert counted.success.ns > counted.cache_hit.ns + counted.cache_miss.ns > 0
    await model.close()


async def test_errors_are_not_kept(tmp_path):
    def refuse(batch: Batch) -> None:
        batch.respond_error(0, UnknownError("no"), chosen_by_model=True)

    backend = fake_backend(refuse)
    model = await cached(tmp_path, backend=backend)

    for _ in range(2):
        with pytest.raises(UnknownError, match="no"):
            await ask(model)

    assert len(executions(backend)) == 2
    assert (model.statistics.cache_hit.count, model.statistics.cache_miss.count) == (0, 2)
    await model.close()


async def test_requests_are_checked_before_they_are_looked_up(tmp_path):
    model = await cached(tmp_path)
    await ask(model)

    with pytest.raises(InvalidArgumentError, match="data-type is 'FP32'"):
        await ask(model, ONE.astype(np.float32))

    assert model.statistics.cache_miss.count == 1
    await model.close()


async def test_a_refused_request_raises_and_is_as_it_was(tmp_path):
    gate = Gate()
    policy = QueuePolicy(max_queue_size=1)
    config = replace(CONFIG, scheduling=DynamicBatching(default_queue_policy=policy))
    model = await cached(tmp_path, backend=fake_backend(gate), config=config)
    sinks = [RecordingSink() for _ in range(3)]
    model.submit(a_request(inputs={"INPUT0": ONE}, sink=sinks[0]))
    await asyncio.to_thread(gate.entered.acquire)
    model.submit(a_request(inputs={"INPUT0": ONE}, sink=sinks[1]))
    refused = a_request(inputs={"INPUT0": ONE}, sink=sinks[2])

    with pytest.raises(UnavailableError, match="Exceeds maximum queue size"):
        model.submit(refused)

    assert refused.sink is sinks[2]
    gate.open(2)
    for sink in sinks[:2]:
        await sink.response()
    await model.close()


async def test_a_hit_is_written_to_the_clients_memory(tmp_path):
    memory = bytearray(64)
    model = await cached(tmp_path, resolve_memory=lambda ref, writable: memoryview(memory)[: ref.byte_size])
    await ask(model)
    ref = SharedMemoryRef("region", 32)

    answer = await ask(model, outputs=[RequestedOutput("OUTPUT0", shared_memory=ref)])
    memory[:] = bytes(64)
    again = await ask(model, outputs=[RequestedOutput("OUTPUT0", shared_memory=ref)])

    assert again.outputs[0].data is ref
    assert answer.outputs == again.outputs
    assert bytes(memory[:12]) == ONE.tobytes()
    assert model.statistics.cache_hit.count == 1
    await model.close()


async def test_ordered_models_answer_hits_in_their_turn(tmp_path):
    gate = Gate()
    config = replace(CONFIG, scheduling=DynamicBatching(preserve_ordering=True))
    model = await cached(tmp_path, backend=fake_backend(gate), config=config)
    gate.open()
    await ask(model, ONE)
    order = []

    async def answered(name, array):
        await ask(model, array)
        order.append(name)

    async with asyncio.TaskGroup() as clients:
        clients.create_task(answered("miss", TWO))
        clients.create_task(answered("hit", ONE))
        await asyncio.sleep(0)
        await asyncio.to_thread(gate.entered.acquire)
        gate.open()

    assert order == ["miss", "hit"]
    await model.close()


@pytest.mark.parametrize("columns", [3, 100_000])
async def test_remote_caches_and_large_requests_take_their_time(tmp_path, columns):
    backend, cache = fake_backend(), RemoteCache()
    model = await cached(tmp_path, cache, backend)
    array = np.arange(columns, dtype=np.int32).reshape(1, -1)

    first, second = await ask(model, array), await ask(model, array)

    assert first.outputs == second.outputs
    assert executions(backend) == [[1]]
    assert model.in_flight == 0
    await model.close()


async def test_a_spoiled_entry_is_a_miss(tmp_path, caplog):
    cache = RemoteCache()
    model = await cached(tmp_path, cache)
    await ask(model)
    cache.entries = dict.fromkeys(cache.entries, b"something else")

    assert (await ask(model)).outputs[0].as_numpy().tolist() == ONE.tolist()
    assert "is of no use" in caplog.text
    await model.close()


async def test_a_request_cancelled_while_it_is_looked_up_is_not_executed(tmp_path):
    backend, cache = fake_backend(), RemoteCache()
    cache.reached.clear()
    model = await cached(tmp_path, cache, backend)
    sink = RecordingSink()
    request = a_request(inputs={"INPUT0": ONE}, sink=sink)
    model.submit(request)

    model.cancel(request)
    cache.reached.set()

    with pytest.raises(CancelledError):
        await sink.response()
    assert executions(backend) == []
    assert model.statistics.fail.count == 1
    await model.close()


async def test_close_waits_for_lookups_and_refuses_afterwards(tmp_path):
    cache = RemoteCache()
    cache.reached.clear()
    model = await cached(tmp_path, cache)
    sink = RecordingSink()
    model.submit(a_request(inputs={"INPUT0": ONE}, sink=sink))
    drained = asyncio.create_task(model.drain())
    await asyncio.sleep(0)
    assert not drained.done()

    cache.reached.set()
    await drained
    assert sink.ended
    await model.close()
    with pytest.raises(UnavailableError):
        model.submit(a_request(inputs={"INPUT0": ONE}))


async def test_decides_nothing_of_the_model_itself(tmp_path):
    model = await cached(tmp_path)
    groups = (InstanceGroup("simple", InstanceKind.CPU, 2),)

    await model.update_instances(replace(model.config, instance_groups=groups))

    assert model.config.instance_groups[0].count == 2
    assert (model.version, model.labels, model.composing) == (1, {}, ())
    await model.close()
