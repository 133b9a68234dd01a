"""
Executions on tensors that lie on a device.

onnxruntime's own bindings run for real, on the processor: its memory takes the GPU's place, under the number 0.
"""

import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest

from charonia_runtime.backends.onnxruntime.device_runs import DeviceRuns
from charonia_runtime.backends.onnxruntime.graph import read_graph
from charonia_runtime.backends.onnxruntime.instance import Instance
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.cuda.copying import CudaCopier
from tests.support import onnx_models
from tests.support.batches import RecordedBatch, a_request
from tests.support.cuda_runtime import FakeGpus
from tests.support.loaded_models import execute
from tests.support.onnx_loading import Load, Loaded, error_of

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def gpus() -> FakeGpus:
    return FakeGpus(2)


def bound(loaded: Loaded, gpus: FakeGpus) -> Any:
    """An instance whose tensors may lie on the device."""
    session = loaded.instance._session
    graph = read_graph(session)
    runs = DeviceRuns(onnxruntime, session, graph, CudaCopier(gpus.cuda()), ("cpu", 0))
    return Instance(onnxruntime, session, onnxruntime.RunOptions(), loaded.config, graph, device_runs=runs)


def on_device(gpus: FakeGpus, tensor: Tensor, device: int = 0) -> None:
    content = bytes(tensor.buffer)
    address = gpus.peer(content or b"\0", device=device).address
    tensor.data = DeviceBuffer(address, len(content), device, None, CudaCopier(gpus.cuda()))


def requests_of(loaded: Loaded, *parts: np.ndarray) -> list[Any]:
    return [a_request(loaded.config, {"A": part, "B": part * 10}) for part in parts]


@pytest.mark.parametrize("places", [(0,), (0, None), (None, 0, 0), (1,), (0, 1, None)])
def test_inputs_from_anywhere(load: Load, gpus: FakeGpus, places: tuple[int | None, ...]) -> None:
    loaded = load(onnx_models.addition())
    requests = requests_of(loaded, *np.split(ROWS[: len(places)], len(places)))
    for request, device in zip(requests, places, strict=True):
        if device is not None:
            on_device(gpus, request.inputs["A"], device)
    batch = execute(bound(loaded, gpus), RecordedBatch(loaded.config, requests))
    for index in range(len(places)):
        outputs = batch.arrays_of(index)
        np.testing.assert_array_equal(outputs["SUM"], ROWS[index : index + 1] * 11)
        np.testing.assert_array_equal(outputs["DIFFERENCE"], ROWS[index : index + 1] * -9)


def test_an_input_is_read_where_it_lies(load: Load, gpus: FakeGpus) -> None:
    loaded = load(onnx_models.addition())
    (request,) = requests_of(loaded, ROWS)
    on_device(gpus, request.inputs["A"])
    batch = execute(bound(loaded, gpus), RecordedBatch(loaded.config, [request]))
    np.testing.assert_array_equal(batch.arrays_of(0)["SUM"], ROWS * 11)
    assert not gpus.copies
    assert isinstance(request.inputs["A"].data, DeviceBuffer)


def test_outputs_stay_for_those_who_take_them_there(load: Load, gpus: FakeGpus) -> None:
    loaded = load(onnx_models.addition())
    requests = requests_of(loaded, ROWS[:1], ROWS[1:])
    requests[0].outputs = [RequestedOutput("SUM", on_device=True), RequestedOutput("DIFFERENCE")]
    instance = bound(loaded, gpus)
    batch = execute(instance, RecordedBatch(loaded.config, requests))
    kept, difference = batch.responses_to(0)[0].outputs
    array = kept.on_device
    assert array is not None
    assert (array.shape, array.datatype) == ((1, 4), DataType.FP32)
    assert isinstance(difference.data, memoryview)
    for _ in range(5):
        execute(instance, RecordedBatch(loaded.config, requests_of(loaded, -ROWS)))
    instance.close()
    np.testing.assert_array_equal(kept.as_numpy(), ROWS[:1] * 11)
    np.testing.assert_array_equal(batch.arrays_of(1)["SUM"], ROWS[1:] * 11)


@pytest.mark.parametrize("datatype", [DataType.BF16, DataType.BOOL, DataType.FP16, DataType.INT64, DataType.UINT8])
def test_types(load: Load, gpus: FakeGpus, datatype: DataType) -> None:
    loaded = load(onnx_models.identity(datatype))
    sent = np.array([[0, 1, 1]]).astype(datatype.numpy_dtype)
    request = a_request(loaded.config, {"INPUT": sent})
    on_device(gpus, request.inputs["INPUT"])
    request.outputs = [RequestedOutput("OUTPUT", on_device=True)]
    batch = execute(bound(loaded, gpus), RecordedBatch(loaded.config, [request]))
    np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT"], sent)


def test_tensors_without_elements(load: Load, gpus: FakeGpus) -> None:
    loaded = load(onnx_models.identity(DataType.FP32))
    request = a_request(loaded.config, {"INPUT": np.empty((2, 0), np.float32)})
    on_device(gpus, request.inputs["INPUT"])
    batch = execute(bound(loaded, gpus), RecordedBatch(loaded.config, [request]))
    assert batch.arrays_of(0)["OUTPUT"].shape == (2, 0)


def test_failures_have_the_library_s_words(load: Load, gpus: FakeGpus) -> None:
    loaded = load(onnx_models.addition())
    request = a_request(loaded.config, {"A": ROWS, "B": ROWS[:2]})
    on_device(gpus, request.inputs["A"])
    error = error_of(execute(bound(loaded, gpus), RecordedBatch(loaded.config, [request])))
    assert isinstance(error, InternalError)
    assert error.message.startswith("onnx runtime error ")


def test_executions_on_the_host_take_the_usual_way(load: Load, gpus: FakeGpus) -> None:
    loaded = load(onnx_models.addition())
    instance = bound(loaded, gpus)
    batch = RecordedBatch(loaded.config, requests_of(loaded, ROWS))
    assert not instance._device_runs.concerns(batch)
    np.testing.assert_array_equal(execute(instance, batch).arrays_of(0)["SUM"], ROWS * 11)


def test_a_machine_without_cuda_s_bindings_goes_over_the_host(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    loaded = load(onnx_models.addition())
    assert DeviceRuns.on_gpu(onnxruntime, loaded.instance._session, read_graph(loaded.instance._session), 0) is None
