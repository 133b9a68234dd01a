"""Requests whose tensors lie in clients' shared memory, through a model: the memory outlives its registration."""

import asyncio
import gc
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest, RequestedOutput
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from tests.support.backends import Gate, a_folder, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.replies import Reply

PAGE = mmap.PAGESIZE


@pytest.fixture
def config() -> ModelConfig:
    return a_config(max_batch_size=0, inputs=(a_tensor("INPUT0"),), outputs=(a_tensor("OUTPUT0"),))


@pytest.fixture
async def registry(tmp_path):
    """`in` holds 0 to 15, `out` nothing."""
    (tmp_path / "in").write_bytes(np.arange(PAGE // 4, dtype=np.int32).tobytes())
    (tmp_path / "out").write_bytes(bytes(PAGE))
    registry = SharedMemoryRegistry(directory=tmp_path)
    await registry.register_system("in", "in", 0, PAGE)
    await registry.register_system("out", "out", 0, PAGE)
    return registry


@pytest.fixture
async def load(config, registry, tmp_path):
    """Load a model that executes by a function."""
    loaded = []

    async def load_model(execute):
        folder = tmp_path / "model"
        folder.mkdir()
        model = await Model.load(a_folder(folder), config, fake_backend(execute), resolve_memory=registry.resolve)
        loaded.append(model)
        return model

    yield load_model
    for model in loaded:
        await model.drain()
        await model.close()


def a_request(offset: int = 0) -> tuple[InferenceRequest, Reply]:
    """Sixteen numbers of region `in` from `offset`, into region `out`."""
    reply = Reply()
    inputs = {"INPUT0": Tensor("INPUT0", DataType.INT32, (16,), SharedMemoryRef("in", 64, offset))}
    outputs = [RequestedOutput("OUTPUT0", shared_memory=SharedMemoryRef("out", 64, 128))]
    return InferenceRequest("simple", inputs, reply, outputs=outputs), reply


def mapped(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


async def test_unregistering_waits_for_requests_in_flight(load, registry, tmp_path):
    gate = Gate()
    model = await load(gate)
    request, reply = a_request(offset=16)
    model.submit(request)
    await asyncio.to_thread(gate.entered.acquire, timeout=20)
    await registry.unregister_system()
    assert mapped(tmp_path / "in") == mapped(tmp_path / "out") == 1

    gate.open()
    response = await reply.response()

    assert response.outputs[0].data == SharedMemoryRef("out", 64, 128)
    written = np.frombuffer((tmp_path / "out").read_bytes(), np.int32)
    assert written[32:48].tolist() == list(range(4, 20))
    assert not written[:32].any()
    assert not written[48:].any()
    await model.drain()
    await model.close()
    del request, reply, response
    gc.collect()
    assert mapped(tmp_path / "in") == mapped(tmp_path / "out") == 0


async def test_requests_on_truncated_memory_are_refused(load, tmp_path):
    model = await load(Gate())
    with (tmp_path / "in").open("r+b") as file:
        file.truncate(32)
    request, _ = a_request()

    with pytest.raises(InferenceError, match=r"Invalid offset \+ byte size for shared memory region: 'in'"):
        model.submit(request)


async def test_observers_hear_of_answered_requests(load):
    heard: list[Any] = []
    failing = True

    def execute(batch):
        if failing:
            raise RuntimeError("no")
        batch.scatter({"OUTPUT0": batch.gather("INPUT0")})

    model = await load(execute)
    model.statistics.observer = lambda *what: heard.append(what)
    request, reply = a_request()
    model.submit(request)
    with pytest.raises(InferenceError):
        await reply.response()
    assert heard == []

    failing = False
    request, reply = a_request()
    model.submit(request)
    await reply.response()

    ((arrival_ns, queued_ns, times),) = heard
    assert arrival_ns == request.arrival_ns <= queued_ns <= times.start <= times.end
