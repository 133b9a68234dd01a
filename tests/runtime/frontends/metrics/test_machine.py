import errno
import threading
from types import SimpleNamespace

import pytest
from prometheus_client import Metric

from charonia_runtime.frontends.metrics.exposition import render
from charonia_runtime.frontends.metrics.machine import CpuProbe, GpuProbe, Sampler

MEMORY = (
    "MemTotal:       24684096 kB\nMemFree:        23522556 kB\nMemAvailable:   23970820 kB\nHugePages_Total:       0\n"
)


def values(families):
    return {sample.name: sample.value for family in families for sample in family.samples}


# --- CPU ---


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "meminfo").write_text(MEMORY)
    (tmp_path / "stat").write_text("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    return tmp_path


def test_cpu_and_memory(proc):
    probe = CpuProbe(proc)

    assert values(probe()) == {
        "nv_cpu_utilization": 0.2,
        "nv_cpu_memory_total_bytes": 24684096 * 1024,
        "nv_cpu_memory_used_bytes": (24684096 - 23970820) * 1024,
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cpu  175 0 100 725 100 0 0 0 50 0", 0.75),
        ("cpu  100 0 100 700 100 0 0 0 50 0", 0.0),
        ("cpu  100 0 100 700 99 0 0 0 50 0", 0.0),
        ("cpu  200 0 100 700 100 0 0 0 50 0", 1.0),
    ],
)
def test_utilization_is_that_since_the_last_look(proc, line, expected):
    probe = CpuProbe(proc)
    probe()
    (proc / "stat").write_text(f"{line}\n")

    assert values(probe())["nv_cpu_utilization"] == expected


def test_this_machine():
    seen = values(CpuProbe()())

    assert 0 <= seen["nv_cpu_utilization"] <= 1
    assert 0 < seen["nv_cpu_memory_used_bytes"] < seen["nv_cpu_memory_total_bytes"]


# --- GPU ---


class FakeNvmlError(Exception):
    pass


class FakeNvml:
    """Two GPUs: the second is a slice that knows nothing of power and utilization."""

    NVMLError = FakeNvmlError

    def __init__(self, count=2, broken=False):
        self.count, self.broken, self.millijoules = count, broken, 5_000_000

    def nvmlInit(self):  # noqa: N802
        if self.broken:
            raise FakeNvmlError("Driver Not Loaded")

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return "GPU-a" if handle == 0 else b"GPU-b"

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=80 * 2**30, used=2**30)

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        return SimpleNamespace(gpu=self._known(handle, 37))

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        return self._known(handle, 75_500)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):  # noqa: N802
        return self._known(handle, 700_000)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        return self._known(handle, self.millijoules)

    @staticmethod
    def _known(handle, value):
        if handle == 1:
            raise FakeNvmlError("Not Supported")
        return value


def test_gpus():
    nvml = FakeNvml()
    probe = GpuProbe(nvml)
    nvml.millijoules += 1_500

    assert "".join(render(probe())) == (
        "# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)\n"
        "# TYPE nv_gpu_utilization gauge\n"
        'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.37\n'
        "# HELP nv_gpu_memory_total_bytes GPU total memory, in bytes\n"
        "# TYPE nv_gpu_memory_total_bytes gauge\n"
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 85899345920\n'
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-b"} 85899345920\n'
        "# HELP nv_gpu_memory_used_bytes GPU used memory, in bytes\n"
        "# TYPE nv_gpu_memory_used_bytes gauge\n"
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 1073741824\n'
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-b"} 1073741824\n'
        "# HELP nv_gpu_power_usage GPU power usage in watts\n"
        "# TYPE nv_gpu_power_usage gauge\n"
        'nv_gpu_power_usage{gpu_uuid="GPU-a"} 75.5\n'
        "# HELP nv_gpu_power_limit GPU power management limit in watts\n"
        "# TYPE nv_gpu_power_limit gauge\n"
        'nv_gpu_power_limit{gpu_uuid="GPU-a"} 700\n'
        "# HELP nv_energy_consumption GPU energy consumption in joules since the Triton Server started\n"
        "# TYPE nv_energy_consumption counter\n"
        'nv_energy_consumption{gpu_uuid="GPU-a"} 1.5\n'
    )


@pytest.mark.parametrize("nvml", [FakeNvml(broken=True), FakeNvml(count=0)])
def test_no_gpus(monkeypatch, nvml):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", nvml)

    assert GpuProbe.find() is None


def test_gpus_have_names():
    assert GpuProbe(FakeNvml()).uuids == {0: "GPU-a", 1: "GPU-b"}


def test_no_nvml_module(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)

    assert GpuProbe.find() is None


def test_gpus_are_found(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", FakeNvml())

    assert GpuProbe.find() is not None


# --- the thread ---


def test_the_sampler_asks_again_and_again():
    rounds = threading.Semaphore(0)

    def probe():
        rounds.release()
        return [Metric("name", "text", "gauge")]

    sampler = Sampler(lambda: [probe], 0.001)
    sampler.start()
    try:
        assert sampler.wait(5)
        assert [family.name for family in sampler.collect()] == ["name"]
        for _ in range(3):
            assert rounds.acquire(timeout=5)
    finally:
        sampler.stop()
        sampler._thread.join(5)
    assert not sampler._thread.is_alive()


def test_a_probe_that_fails_is_left_out(caplog):
    def broken():
        raise OSError("no driver")

    sampler = Sampler(lambda: [broken, lambda: [Metric("name", "text", "gauge")]], 60)
    sampler.start()

    assert sampler.wait(5)
    sampler.stop()
    assert [family.name for family in sampler.collect()] == ["name"]
    assert [record.getMessage() for record in caplog.records] == ["metrics of the machine are incomplete: no driver"]


def test_a_probe_that_lacks_a_descriptor_is_asked_again(caplog):
    errors = [OSError(errno.EMFILE, "Too many open files")]
    asked = threading.Event()

    def short():
        if errors:
            raise errors.pop()
        asked.set()
        return [Metric("name", "text", "gauge")]

    sampler = Sampler(lambda: [short], 0.001)
    sampler.start()

    assert asked.wait(5)
    sampler.stop()
    sampler._thread.join(5)
    assert [family.name for family in sampler.collect()] == ["name"]
    assert not caplog.records


def test_a_hanging_driver_holds_nobody():
    hanging = threading.Event()
    sampler = Sampler(lambda: [lambda: hanging.wait() and ()], 60)
    sampler.start()

    assert not sampler.wait(0.01)
    assert sampler.collect() == ()
    sampler.stop()
    hanging.set()


def test_without_probes_the_thread_ends():
    sampler = Sampler(list, 60)
    sampler.start()

    assert sampler.wait(5)
    sampler._thread.join(5)
    assert not sampler._thread.is_alive()
