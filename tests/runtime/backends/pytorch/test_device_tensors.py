"""Inputs that lie on a GPU, outputs that stay there: on a stand-in that keeps them elsewhere, and on a GPU."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from charonia_runtime.backends.pytorch.devices import HostDevice, TorchCopier, open_device  # noqa: E402
from charonia_runtime.core.config import BatchOutput, InstanceGroup, InstanceKind, Placement  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.device import DeviceArray, DeviceBuffer  # noqa: E402
from charonia_runtime.core.request import RequestedOutput  # noqa: E402
from charonia_runtime.cuda.copying import CudaCopier  # noqa: E402
from tests.support.batches import RecordedBatch, a_request  # noqa: E402
from tests.support.cuda_runtime import FakeGpus  # noqa: E402
from tests.support.loaded_models import execute  # noqa: E402
from tests.support.torch_models import FP32, Difference, InPlace, Loaded, scripted, torch_config  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
GPU = Placement("m_0", InstanceKind.GPU, 0)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
DIFFERENCE = torch_config(
    {"left": (FP32, 2), "right": (FP32, 2)}, {"OUT__0": (FP32, 2), "OUT__1": (FP32, 2)}
)  # fmt: skip


class StandIn(HostDevice):
    """A GPU that computes on the host. Tensors that stay there lie in the memory of a fake one."""

    reads_devices = True

    def __init__(self, gpus: FakeGpus) -> None:
        super().__init__(torch)
        self.gpus = gpus
        self.pending: list[Any] = []

    def keep(self, tensor: Any, datatype: DataType) -> DeviceArray | None:
        (array,) = self.to_host([tensor])
        address = self.gpus.peer(bytes(array.nbytes)).address
        self.pending.append((address, array.tobytes()))
        buffer = DeviceBuffer(address, array.nbytes, 0, None, CudaCopier(self.gpus.cuda()))
        return DeviceArray(datatype, array.shape, buffer)

    def wait(self) -> None:
        while self.pending:
            address, content = self.pending.pop()
            ctypes.memmove(address, content, len(content))


@pytest.fixture
def gpus() -> FakeGpus:
    return FakeGpus()


def standing_in(loaded: Loaded, gpus: FakeGpus) -> Loaded:
    loaded.instance._device = StandIn(gpus)
    return loaded


def run(loaded: Loaded, requests: list[Any]) -> RecordedBatch:
    return execute(loaded.instance, RecordedBatch(loaded.config, requests))


def a_buffer(gpus: FakeGpus, array: np.ndarray) -> DeviceBuffer:
    return DeviceBuffer(gpus.peer(array.tobytes()).address, array.nbytes, 0, None, CudaCopier(gpus.cuda()))


def requests_of(loaded: Loaded, *parts: np.ndarray) -> list[Any]:
    return [a_request(loaded.config, {"left": part, "right": part * 10}) for part in parts]


@pytest.mark.parametrize("there", [(0, 1), (0,), (1,)])
def test_inputs_from_both_sides(tmp_path: Path, gpus: FakeGpus, there: tuple[int, ...]) -> None:
    loaded = standing_in(Loaded(scripted(tmp_path, Difference()), DIFFERENCE), gpus)
    parts = [ROWS[:1], ROWS[1:]]
    requests = requests_of(loaded, *parts)
    for index in there:
        requests[index].inputs["left"].data = a_buffer(gpus, parts[index])
    batch = run(loaded, requests)
    for index, part in enumerate(parts):
        np.testing.assert_array_equal(batch.arrays_of(index)["OUT__0"], part * -9)
        np.testing.assert_array_equal(batch.arrays_of(index)["OUT__1"], part * 11)


def test_outputs_stay_for_those_who_take_them_there(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = standing_in(Loaded(scripted(tmp_path, Difference()), DIFFERENCE), gpus)
    requests = requests_of(loaded, ROWS[:1], ROWS[1:])
    requests[0].outputs = [RequestedOutput("OUT__1", on_device=True), RequestedOutput("OUT__0")]
    batch = run(loaded, requests)
    tensors = {tensor.name: tensor for tensor in batch.responses_to(0)[0].outputs}
    assert tensors["OUT__0"].on_device is None
    assert tensors["OUT__1"].on_device is not None
    np.testing.assert_array_equal(tensors["OUT__0"].as_numpy(), ROWS[:1] * -9)
    np.testing.assert_array_equal(tensors["OUT__1"].as_numpy(), ROWS[:1] * 11)
    np.testing.assert_array_equal(batch.arrays_of(1)["OUT__1"], ROWS[1:] * 11)


def test_what_an_input_cuts_is_cut_on_the_host(tmp_path: Path, gpus: FakeGpus) -> None:
    config = torch_config(
        {"left": (FP32, -1), "right": (FP32, 2)},
        {"OUT__0": (FP32, -1), "OUT__1": (FP32, 2)},
        batch_outputs=(BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", ("OUT__0",), ("left",)),),
    )
    loaded = standing_in(Loaded(scripted(tmp_path, Difference()), config), gpus)
    (request,) = requests_of(loaded, ROWS)
    request.outputs = [RequestedOutput("OUT__0", on_device=True)]
    (tensor,) = run(loaded, [request]).responses_to(0)[0].outputs
    assert tensor.on_device is None
    np.testing.assert_array_equal(tensor.as_numpy(), ROWS * -9)


# --- a GPU ---


def gpu_config(**changes: Any) -> Any:
    return {"instance_groups": (InstanceGroup("m", InstanceKind.GPU, 1, gpus=(0,)),)} | changes


@needs_gpu
@pytest.mark.parametrize(
    "datatype", [datatype for datatype in DataType if datatype.item_size], ids=lambda datatype: datatype.value
)
def test_there_and_back_on_a_gpu(datatype: DataType) -> None:
    device = open_device(torch, GPU)
    sent = np.array([[0, 1, 1]]).astype(datatype.numpy_dtype)
    with device.stream():
        kept = device.keep(device.from_host(sent, datatype), datatype)
        assert kept is not None
        device.wait()
        (back,) = device.to_host([device.from_device(kept)])
    assert (kept.datatype, kept.shape, kept.buffer.device_id) == (datatype, (1, 3), 0)
    np.testing.assert_array_equal(kept.to_host(), sent)
    np.testing.assert_array_equal(back, sent)


@needs_gpu
def test_copies_by_torch() -> None:
    tensor = torch.zeros(8, dtype=torch.uint8, device="cuda")
    other = torch.arange(8, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    copier = TorchCopier(torch)
    buffer = DeviceBuffer(tensor.data_ptr(), 8, 0, tensor, copier)
    buffer[2:].fill(memoryview(b"ab"))
    buffer[5:].fill(DeviceBuffer(other.data_ptr(), 8, 0, other, copier)[1:3])
    assert buffer.to_host() == b"\0\0ab\0\1\2\0"


@needs_gpu
def test_a_model_s_own_tensor_is_not_given_out(tmp_path: Path) -> None:
    config = torch_config({"added": (FP32, 2)}, {"OUT__0": (FP32, 2)}, **gpu_config())
    loaded = Loaded(scripted(tmp_path, InPlace()), config, GPU)
    kept = []
    for _ in range(3):
        request = a_request(loaded.config, {"added": np.ones((1, 2), np.float32)})
        request.outputs = [RequestedOutput("OUT__0", on_device=True)]
        kept += run(loaded, [request]).responses_to(0)[0].outputs
    assert [tensor.as_numpy().tolist() for tensor in kept] == [[[2, 2]], [[4, 4]], [[6, 6]]]
