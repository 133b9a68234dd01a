"""
Models on GPUs by their execution accelerators, on a stand-in for the GPU build of onnxruntime.

The stand-in notes what sessions are asked for and runs them on the processor, whose memory it calls the GPU's.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import Accelerator, InstanceGroup, InstanceKind, ModelConfig, Optimization, Placement
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import RequestedOutput
from tests.support import onnx_models
from tests.support.batches import RecordedBatch, a_batch, a_request
from tests.support.cuda_runtime import FakeGpus
from tests.support.loaded_models import execute
from tests.support.onnx_loading import blank
from tests.support.tensorrt_runtime import install_tensorrt

TENSORRT, CUDA, CPU = "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"
ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)


class GpuValues:
    """`OrtValue`, whose devices of type cuda are the processor."""

    def __init__(self) -> None:
        self.ortvalue_from_numpy = onnxruntime.OrtValue.ortvalue_from_numpy

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, onnxruntime.OrtValue)

    def ortvalue_from_shape_and_type(self, shape: Any, kind: Any, device: str, number: int) -> Any:
        assert device == "cuda"
        return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, kind, "cpu", 0)


class GpuBinding:
    def __init__(self, binding: Any) -> None:
        self._binding = binding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    def bind_input(self, name: str, device: str, number: int, *rest: Any) -> None:
        assert device == "cuda"
        self._binding.bind_input(name, "cpu", 0, *rest)

    def bind_output(self, name: str, device: str = "cpu", number: int = 0) -> None:
        self._binding.bind_output(name, "cpu", 0)


class GpuSession:
    """Also notes what it was asked for, in `asked`."""

    def __init__(self, library: "GpuLibrary", path: str, options: Any, providers: Any, enable_fallback: int) -> None:
        assert enable_fallback == 0
        self._session = onnxruntime.InferenceSession(path, options, providers=[CPU])
        self._providers = [name for name, _ in providers if name not in library.broken]
        self.asked = providers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get_providers(self) -> list[str]:
        return self._providers

    def io_binding(self) -> GpuBinding:
        return GpuBinding(self._session.io_binding())

    def run_with_iobinding(self, binding: GpuBinding, options: Any) -> None:
        self._session.run_with_iobinding(binding._binding, options)


class GpuLibrary(ModuleType):
    def __init__(self) -> None:
        super().__init__("onnxruntime")
        self.__spec__ = onnxruntime.__spec__
        self.preloaded = 0
        self.broken: list[str] = []
        self.sessions: list[GpuSession] = []
        self.OrtValue = GpuValues()

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)

    def get_available_providers(self) -> list[str]:
        return [TENSORRT, CUDA, CPU]

    def preload_dlls(self) -> None:
        self.preloaded += 1

    def InferenceSession(self, path: str, options: Any, *, providers: Any, enable_fallback: int) -> GpuSession:  # noqa: N802
        self.sessions.append(GpuSession(self, path, options, providers, enable_fallback))
        return self.sessions[-1]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    return install_tensorrt(monkeypatch, FakeGpus(2))[0]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, gpus: FakeGpus) -> GpuLibrary:
    library = GpuLibrary()
    monkeypatch.setitem(sys.modules, "onnxruntime", library)
    return library


class Loaded:
    def __init__(self, directory: Path, *accelerators: Accelerator, **changes: Any) -> None:
        (directory / "1").mkdir(parents=True, exist_ok=True)
        (directory / "1" / "model.onnx").write_bytes(onnx_models.addition())
        groups = (InstanceGroup("m", InstanceKind.GPU, 1, gpus=(0, 1)),)
        optimization = Optimization(gpu_accelerators=accelerators)
        self.config: ModelConfig = blank(instance_groups=groups, optimization=optimization, **changes)
        files = ModelFiles("m", 1, directory, directory / "1", {}, gpus=(0, 1))
        self.backend: Any = load_backend("onnxruntime")(files)
        self.config = self.backend.auto_complete(self.config)
        self.backend.load(self.config)

    def instance(self, device_id: int = 0, name: str = "m_0") -> Any:
        return self.backend.create_instance(Placement(name, InstanceKind.GPU, device_id))


def test_accelerators_become_providers(tmp_path: Path, library: GpuLibrary) -> None:
    tensorrt = Accelerator("tensorrt", {"precision_mode": "FP16", "max_workspace_size_bytes": "1073741824"})
    loaded = Loaded(tmp_path, tensorrt, Accelerator("cuda", {"cudnn_conv_use_max_workspace": "1"}))
    instance = loaded.instance(device_id=1)
    sent = {"A": ROWS, "B": ROWS}
    np.testing.assert_array_equal(execute(instance, a_batch(loaded.config, sent)).arrays_of(0)["SUM"], ROWS * 2)
    assert library.preloaded == 2
    assert [session.asked for session in library.sessions] == [
        [
            (TENSORRT, {"trt_fp16_enable": "True", "trt_max_workspace_size": "1073741824", "device_id": device}),
            (CUDA, {"cudnn_conv_use_max_workspace": "1", "device_id": device}),
            (CPU, {}),
        ]
        for device in ("0", "1")
    ]


def test_instances_of_a_gpu_share_their_session(tmp_path: Path, library: GpuLibrary) -> None:
    loaded = Loaded(tmp_path)
    assert loaded.instance()._session is loaded.instance(name="m_1")._session
    assert len(library.sessions) == 1


def test_instances_that_replay_graphs_do_not(tmp_path: Path, library: GpuLibrary) -> None:
    loaded = Loaded(tmp_path, Accelerator("cuda", {"enable_cuda_graph": "1"}))
    first, second = loaded.instance(), loaded.instance(name="m_1")
    assert first._session is not second._session
    assert first._device_runs is None


def test_a_provider_that_does_not_start_is_an_error(tmp_path: Path, library: GpuLibrary) -> None:
    library.broken = [TENSORRT]
    with pytest.raises(InternalError, match=f"{TENSORRT} could not be started"):
        Loaded(tmp_path, Accelerator("tensorrt"))


def test_tensors_stay_on_the_gpu(tmp_path: Path, library: GpuLibrary, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path)
    instance = loaded.instance()
    given: list[Any] = [a_request(loaded.config, {"A": part, "B": part}) for part in (ROWS[:1], ROWS[1:])]
    for _ in range(3):
        for request in given:
            request.outputs = [RequestedOutput("SUM", on_device=True)]
        batch = execute(instance, RecordedBatch(loaded.config, given))
        made = [batch.responses_to(index)[0].outputs[0] for index in range(2)]
        assert all(tensor.on_device is not None for tensor in made)
        given = [a_request(loaded.config, {"A": part, "B": part * 0}) for part in (ROWS[:1], ROWS[1:])]
        for request, tensor in zip(given, made, strict=True):
            request.inputs["A"].data = tensor.data
    np.testing.assert_array_equal(np.concatenate([tensor.as_numpy() for tensor in made]), ROWS * 2)
