"""Which GPUs a server may use follows from the device files and two environment variables."""

import pytest

from charonia_runtime.devices import visible_gpus


@pytest.fixture
def two_gpus(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({}, (0, 1)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, (0,)),
        ({"CUDA_VISIBLE_DEVICES": "1,0,7"}, (0, 1)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8f0a,-1,0"}, (0,)),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"TRITON_SERVER_CPU_ONLY": "1"}, ()),
        ({"TRITON_SERVER_CPU_ONLY": "0"}, (0, 1)),
    ],
)
def test_gpus_of_a_machine_that_has_two(two_gpus, environment, gpus):
    assert visible_gpus(environment, two_gpus) == gpus


def test_a_machine_without_gpus(tmp_path):
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path) == ()
