"""Where instances run. What needs a GPU is skipped without one."""

from pathlib import Path
from threading import Thread

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from charonia_runtime.backends.pytorch.devices import device_name, open_device  # noqa: E402
from charonia_runtime.core.config import InstanceGroup, InstanceKind, Placement  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import UnsupportedError  # noqa: E402
from tests.support.torch_models import FP32, Loaded, Network, quietly, save_script, scripted, torch_config  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
GPU = Placement("m_0", InstanceKind.GPU, 0)
MODEL = Placement("m_0", InstanceKind.MODEL)
ROWS = np.random.default_rng(0).random((4, 128), np.float32)
NUMERIC = [datatype for datatype in DataType if datatype.item_size]


def network_config(kind: InstanceKind):
    groups = (InstanceGroup("m", kind, 1, gpus=(0,) if kind is InstanceKind.GPU else ()),)
    return torch_config({"x": (FP32, 128)}, {"OUT__0": (FP32, 10)}, instance_groups=groups)


@pytest.mark.parametrize(
    ("placement", "name"),
    [(Placement("m", InstanceKind.CPU), "cpu"), (Placement("m", InstanceKind.GPU, 3), "cuda:3"), (MODEL, None)],
)
def test_torch_s_names(placement: Placement, name: str | None) -> None:
    assert device_name(placement) == name


@pytest.mark.parametrize("placement", [MODEL, pytest.param(GPU, marks=needs_gpu)], ids=["host", "gpu"])
@pytest.mark.parametrize("datatype", NUMERIC, ids=lambda datatype: datatype.value)
def test_there_and_back(placement: Placement, datatype: DataType) -> None:
    device = open_device(torch, placement)
    sent = np.array([[0, 1, 1]]).astype(datatype.numpy_dtype)
    sent.flags.writeable = False
    with device.stream():
        tensor = device.from_host(sent, datatype)
        (got, turned) = device.to_host([tensor, tensor.T])
    assert got.dtype == sent.dtype
    np.testing.assert_array_equal(got, sent)
    np.testing.assert_array_equal(turned, sent.T)


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch finds a GPU")
def test_a_gpu_that_torch_cannot_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot use GPU 0"):
        Loaded(scripted(tmp_path, Network()), network_config(InstanceKind.GPU), GPU)


def test_models_that_place_themselves_get_their_inputs_on_the_host(tmp_path: Path) -> None:
    loaded = Loaded(scripted(tmp_path, Network()), network_config(InstanceKind.MODEL), MODEL)
    assert loaded.run({"x": ROWS}).arrays_of(0)["OUT__0"].shape == (4, 10)


@needs_gpu
def test_the_same_numbers_on_a_gpu(tmp_path: Path) -> None:
    loaded = Loaded(scripted(tmp_path, Network()), network_config(InstanceKind.GPU), GPU)
    expected = Network().eval()(torch.from_numpy(ROWS)).detach().numpy()
    np.testing.assert_allclose(loaded.run({"x": ROWS}).arrays_of(0)["OUT__0"], expected, rtol=1e-3, atol=1e-4)


@needs_gpu
def test_instances_on_a_gpu_have_streams_of_their_own(tmp_path: Path) -> None:
    class Slow(torch.nn.Module):
        def forward(self, x):
            for _ in range(50):
                x = x @ x.t() @ x / x.norm()
            return x

    with quietly():
        save_script(Slow(), tmp_path / "1" / "model.pt")
    loaded = Loaded(tmp_path, network_config(InstanceKind.GPU), GPU)
    instances = [loaded.instance, loaded.backend.create_instance(GPU)]
    assert len({instance._device._stream.cuda_stream for instance in instances}) == 2
    expected = loaded.run({"x": ROWS}).arrays_of(0)["OUT__0"]
    answers: list[np.ndarray] = []

    def many(instance: object) -> None:
        for _ in range(20):
            copy = Loaded.__new__(Loaded)
            copy.instance, copy.config = instance, loaded.config
            answers.append(copy.run({"x": ROWS}).arrays_of(0)["OUT__0"])

    threads = [Thread(target=many, args=(instance,)) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 40
    for answer in answers:
        np.testing.assert_allclose(answer, expected, rtol=1e-3)
