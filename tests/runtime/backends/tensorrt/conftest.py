import pytest

from tests.support.cuda_runtime import FakeGpus
from tests.support.tensorrt_runtime import FakeTensorrt, install_tensorrt


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeGpus, FakeTensorrt]:
    """Two GPUs and TensorRT, all of them stand-ins."""
    return install_tensorrt(monkeypatch, FakeGpus(2))


@pytest.fixture
def gpus(machine: tuple[FakeGpus, FakeTensorrt]) -> FakeGpus:
    return machine[0]


@pytest.fixture
def tensorrt(machine: tuple[FakeGpus, FakeTensorrt]) -> FakeTensorrt:
    return machine[1]
