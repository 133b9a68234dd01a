"""Tensors that lie on GPUs on their way through the engine: clients' CUDA memory, and the steps of an ensemble."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, RequestedOutput
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.cuda.regions import InterprocessMemory
from charonia_runtime.engine.caches.local import Cache
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.logs import Log, LogOptions
from tests.support.cuda_runtime import PEER_HANDLE, FakeGpus
from tests.support.replies import Reply
from tests.support.tensorrt_runtime import a_plan, an_input, an_output, install_tensorrt, write_plan

PLAN = a_plan([an_input("IN", -1, 4)], [an_output("OUT", -1, 4)], "double")
HOST_MODEL = """
backend: "identity"
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
"""
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input {{ name: "IN" data_type: TYPE_FP32 dims: [4] }}
{outputs}
ensemble_scheduling {{ {steps} }}
"""
ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)
OUTPUT_HANDLE = b"o" * 64


def write_chain(repository: Path, name: str, models: Iterable[str], outputs: Iterable[str]) -> None:
    """`IN` → t1 → t2 → …; `outputs` are the tensors that clients see."""
    steps = "".join(
        f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{_tensor(index)}" }} '
        f'output_map {{ key: "OUT" value: "{_tensor(index + 1)}" }} }}\n'
        for index, model in enumerate(models)
    )
    shown = "".join(f'output {{ name: "{output}" data_type: TYPE_FP32 dims: [4] }}\n' for output in outputs)
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(ENSEMBLE.format(outputs=shown, steps=steps))


def _tensor(index: int) -> str:
    return f"t{index}" if index else "IN"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    """One GPU, with two allocations of another process: four rows of ones, and four of nothing."""
    gpus, _ = install_tensorrt(monkeypatch)
    gpus.peer(np.ones((4, 4), np.float32).tobytes())
    gpus.peer(bytes(64), OUTPUT_HANDLE)
    return gpus


@pytest.fixture
async def engine(tmp_path: Path, gpus: FakeGpus) -> AsyncIterator[Engine]:
    """Serves two plans without configuration, a model of the host, and chains of them; both regions are registered."""
    for name in ("first", "second"):
        write_plan(tmp_path / name, PLAN)
    (tmp_path / "host" / "1").mkdir(parents=True)
    (tmp_path / "host" / "config.pbtxt").write_text(HOST_MODEL)
    (tmp_path / "cached" / "1").mkdir(parents=True)
    (tmp_path / "cached" / "config.pbtxt").write_text(HOST_MODEL + "response_cache { enable: true }")
    write_chain(tmp_path, "gpu_chain", ["first", "second"], ["t2"])
    write_chain(tmp_path, "shown_chain", ["first", "second"], ["t1", "t2"])
    write_chain(tmp_path, "host_chain", ["first", "host", "second"], ["t3"])
    shared_memory = SharedMemoryRegistry(cuda=InterprocessMemory(gpus.cuda()))
    engine = Engine(
        EngineOptions(model_repositories=(str(tmp_path),)),
        load_backend,
        partial(Model.load, resolve_memory=shared_memory.resolve),
        shared_memory=shared_memory,
        settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
        resolve_memory=shared_memory.resolve,
        cache=Cache({"size": "65536"}),
        gpus=(0,),
    )
    await engine.start()
    await engine.shared_memory.register_cuda("in", PEER_HANDLE, 0, 64)
    await engine.shared_memory.register_cuda("out", OUTPUT_HANDLE, 0, 64)
    gpus.copies.clear()
    yield engine
    await engine.stop()


async def infer(
    engine: Engine, model: str, given: "np.ndarray | SharedMemoryRef" = ROWS, outputs: Iterable[RequestedOutput] = ()
) -> InferenceResponse:
    tensor = (
        Tensor("IN", DataType.FP32, (2, 4), given)
        if isinstance(given, SharedMemoryRef)
        else Tensor.from_numpy("IN", given)
    )
    reply = Reply()
    engine.submit(InferenceRequest(model, {"IN": tensor}, reply, outputs=list(outputs)))
    response = await reply.response()
    for output in response.outputs:
        assert not isinstance(output.data, DeviceBuffer), "a frontend would see a tensor on a GPU"
    return response


def region_content(gpus: FakeGpus, handle: bytes) -> np.ndarray:
    return np.frombuffer(gpus.bytes_at(gpus.peers[handle].address, 64), np.float32).reshape(4, 4)


# --- ensembles ---


async def test_between_steps_on_a_gpu_nothing_goes_through_the_host(engine: Engine, gpus: FakeGpus) -> None:
    response = await infer(engine, "gpu_chain")
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), ROWS * 4)
    assert gpus.copies == {"host to gpu": 1, "gpu to host": 1}


async def test_what_clients_may_see_comes_to_the_host_once(engine: Engine, gpus: FakeGpus) -> None:
    response = await infer(engine, "shown_chain")
    arrays = {output.name: output.as_numpy() for output in response.outputs}
    np.testing.assert_array_equal(arrays["t1"], ROWS * 2)
    np.testing.assert_array_equal(arrays["t2"], ROWS * 4)
    assert gpus.copies["gpu to host"] == 2


async def test_a_step_on_the_host_gets_its_input_there(engine: Engine, gpus: FakeGpus) -> None:
    response = await infer(engine, "host_chain")
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), ROWS * 4)
    assert gpus.copies == {"host to gpu": 2, "gpu to host": 2}


async def test_many_at_once(engine: Engine) -> None:
    factors = range(1, 30)
    responses = await asyncio.gather(*(infer(engine, "gpu_chain", ROWS * factor) for factor in factors))
    for factor, response in zip(factors, responses, strict=True):
        np.testing.assert_array_equal(response.outputs[0].as_numpy(), ROWS * factor * 4)


# --- clients' memory ---


def to_region(name: str, offset: int = 0) -> RequestedOutput:
    return RequestedOutput(name, shared_memory=SharedMemoryRef("out", 32, offset))


@pytest.mark.parametrize(
    ("model", "output", "factor"), [("first", "OUT", 2), ("gpu_chain", "t2", 4), ("host", "OUT", 1)]
)
async def test_regions_are_read_and_written(
    engine: Engine, gpus: FakeGpus, model: str, output: str, factor: int
) -> None:
    response = await infer(engine, model, SharedMemoryRef("in", 32, 16), [to_region(output, 32)])
    assert response.error is None
    assert response.outputs[0].data == SharedMemoryRef("out", 32, 32)
    content = region_content(gpus, OUTPUT_HANDLE)
    assert not content[:2].any()
    assert (content[2:] == factor).all()


@pytest.mark.parametrize(("model", "output"), [("first", "OUT"), ("gpu_chain", "t2")])
async def test_between_regions_nothing_goes_through_the_host(
    engine: Engine, gpus: FakeGpus, model: str, output: str
) -> None:
    await infer(engine, model, SharedMemoryRef("in", 32), [to_region(output)])
    assert gpus.copies == {"gpu to gpu": 1}  # the input is used where it lies


async def test_a_model_of_the_host_reads_a_region(engine: Engine, gpus: FakeGpus) -> None:
    response = await infer(engine, "host", SharedMemoryRef("in", 32))
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), np.ones((2, 4), np.float32))
    assert gpus.copies == {"gpu to host": 1}


async def test_answers_from_the_cache_reach_a_region(engine: Engine, gpus: FakeGpus) -> None:
    for offset in (0, 32):
        await infer(engine, "cached", SharedMemoryRef("in", 32), [to_region("OUT", offset)])
    assert (region_content(gpus, OUTPUT_HANDLE) == 1).all()
    assert engine.cache_use is not None
    assert (engine.cache_use.hits, engine.cache_use.lookups) == (1, 2)


async def test_a_region_that_is_too_small(engine: Engine, gpus: FakeGpus) -> None:
    small = RequestedOutput("OUT", shared_memory=SharedMemoryRef("out", 8))
    with pytest.raises(InternalError, match=r"\(8 bytes\) should be at least 32 bytes to hold the results"):
        await infer(engine, "first", outputs=[small])
    assert not region_content(gpus, OUTPUT_HANDLE).any()


async def test_inputs_of_the_wrong_size_are_refused(engine: Engine) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"byte size mismatch for input 'IN' for model 'first'\. Expected 32, got 16"
    ):
        await infer(engine, "first", SharedMemoryRef("in", 16))


async def test_unregistering_waits_for_requests_in_flight(engine: Engine, gpus: FakeGpus) -> None:
    reply = Reply()
    tensor = Tensor("IN", DataType.FP32, (2, 4), SharedMemoryRef("in", 32))
    engine.submit(InferenceRequest("first", {"IN": tensor}, reply, outputs=[to_region("OUT")]))
    await engine.shared_memory.unregister_cuda()
    assert await engine.shared_memory.cuda_regions() == []
    assert len(gpus.opened) == 2
    response = await reply.response()
    assert response.error is None
    assert (region_content(gpus, OUTPUT_HANDLE)[:2] == 2).all()
    del response, tensor, reply
    await asyncio.sleep(0)
    await infer(engine, "first")  # the instance lets go of its last batch
    assert gpus.opened == []
