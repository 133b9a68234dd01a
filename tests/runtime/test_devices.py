"""Which GPUs and cores a server may use: device files, environment variables, control groups."""

from pathlib import Path

import pytest

from charonia_runtime.devices import allowed_cpus, default_thread_count, visible_gpus


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


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8),
     ("nonsense", 8)],
)  # fmt: skip
def test_a_container_s_limit_bounds_the_pool(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(limit + "\n")
    assert allowed_cpus(tmp_path / "cpu.max", 8) == cores


def test_without_control_groups_all_cores_count(tmp_path: Path) -> None:
    assert allowed_cpus(tmp_path / "cpu.max", 8) == 8


def test_the_library_chooses_where_nothing_limits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("charonia_runtime.devices._CGROUP_LIMIT", Path("/no/such/file"))
    assert default_thread_count() == 0
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert default_thread_count() == 8
