"""Gauges of the machine: CPU and memory from /proc, GPUs through NVML, looked at by a thread now and then."""

import errno
import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

logger = logging.getLogger(__name__)

_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE})
Probe = Callable[[], Sequence[Metric]]
"""Looks at a part of the machine; may block."""


class Sampler(Collector):
    """
    Asks probes every `interval_seconds` in a thread of its own, so that no scrape waits for a driver.

    `find_probes` is called in the thread as well. Yields what the last round found. A probe that fails is logged once
    and not asked again, unless all that it lacked was a descriptor.
    """

    def __init__(self, find_probes: Callable[[], Sequence[Probe]], interval_seconds: float) -> None:
        self._families: tuple[Metric, ...] = ()
        self._find_probes = find_probes
        self._interval_seconds = interval_seconds
        self._sampled = threading.Event()
        self._stopping = threading.Event()
        # A daemon: a thread that hangs in a driver must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="metrics-sampler", daemon=True)

    @override
    def collect(self) -> Sequence[Metric]:
        return self._families

    def start(self) -> None:
        self._thread.start()

    def wait(self, timeout_seconds: float) -> bool:
        """Block until the first round is over; False when it takes longer."""
        return self._sampled.wait(timeout_seconds)

    def stop(self) -> None:
        """End the thread after the round that it is in, without waiting for it."""
        self._stopping.set()

    def _run(self) -> None:
        probes = list(self._find_probes())
        while probes:
            self._families = tuple(self._ask(probes))
            self._sampled.set()
            if self._stopping.wait(self._interval_seconds):
                return
        self._sampled.set()

    @staticmethod
    def _ask(probes: list[Probe]) -> list[Metric]:
        """What the probes see; those that fail leave the list."""
        found: list[Metric] = []
        for probe in list(probes):
            try:
                found += probe()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises
                if isinstance(error, OSError) and error.errno in _PASSING:
                    continue
                logger.warning("metrics of the machine are incomplete: %s", error)
                probes.remove(probe)
        return found


class PinnedMemory(Collector):
    """Triton shows the size that was asked for, also where there is no such pool; ours has none."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes

    @override
    def collect(self) -> Sequence[Metric]:
        return (
            _gauge(
                "nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", self._total_bytes
            ),
            _gauge("nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", 0),
        )


class CpuProbe:
    """CPU time since the last look, and memory. Linux only: elsewhere /proc is missing and the probe fails."""

    def __init__(self, directory: Path = Path("/proc")) -> None:
        self._directory = directory
        self._busy = self._total = 0

    def __call__(self) -> Sequence[Metric]:
        total_bytes, available_bytes = self._memory()
        return (
            _gauge("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", self._utilization()),
            _gauge("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", total_bytes),
            _gauge("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", total_bytes - available_bytes),
        )

    def _utilization(self) -> float:
        fields = (self._directory / "stat").read_text().split("\n", 1)[0].split()[1:]
        # user nice system idle iowait irq softirq steal; guest times are part of user already
        times = [int(text) for text in fields[:8]]
        total = sum(times)
        busy = total - times[3] - times[4]
        spent, passed = busy - self._busy, total - self._total
        self._busy, self._total = busy, total
        return min(max(spent / passed, 0.0), 1.0) if passed > 0 else 0.0

    def _memory(self) -> tuple[int, int]:
        lines = (self._directory / "meminfo").read_text().splitlines()
        kilobytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
        return kilobytes["MemTotal"] * 1024, kilobytes["MemAvailable"] * 1024


_GPU_GAUGES: Final[tuple[tuple[str, str, Callable[[Any, Any], float]], ...]] = (
    (
        "nv_gpu_utilization",
        "GPU utilization rate [0.0 - 1.0)",
        lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
    ),
    (
        "nv_gpu_memory_total_bytes",
        "GPU total memory, in bytes",
        lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).total,
    ),
    (
        "nv_gpu_memory_used_bytes",
        "GPU used memory, in bytes",
        lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used,
    ),
    (
        "nv_gpu_power_usage",
        "GPU power usage in watts",
        lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    ),
    (
        "nv_gpu_power_limit",
        "GPU power management limit in watts",
        lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
    ),
)


class GpuProbe:
    """All GPUs that NVML shows. What a GPU cannot tell is left out."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        self.uuids = {index: _text(nvml.nvmlDeviceGetUUID(handle)) for index, handle in enumerate(handles)}
        """By the number that NVML gives a GPU: the id that models know it by, unless the environment hides some."""
        self._devices = [
            (handle, {"gpu_uuid": uuid}) for handle, uuid in zip(handles, self.uuids.values(), strict=True)
        ]
        self._first_joules = [self._joules(handle) for handle in handles]

    @classmethod
    def find(cls) -> "GpuProbe | None":
        """The probe of this machine; None without the NVML module, without a driver or without a GPU."""
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return None
        try:
            probe = cls(nvml)
        except Exception as error:  # noqa: BLE001 - NVML's errors have no common import
            logger.info("no metrics of GPUs: %s", error)
            return None
        return probe if probe._devices else None

    def __call__(self) -> Sequence[Metric]:
        families = []
        for name, text, read in _GPU_GAUGES:
            family = Metric(name, text, "gauge")
            for handle, labels in self._devices:
                value = self._ask(read, handle)
                if value is not None:
                    family.add_sample(name, labels, value)
            families.append(family)
        energy = Metric(
            "nv_energy_consumption", "GPU energy consumption in joules since the Triton Server started", "counter"
        )
        for (handle, labels), first in zip(self._devices, self._first_joules, strict=True):
            joules = self._joules(handle)
            if joules is not None and first is not None:
                energy.add_sample(energy.name, labels, joules - first)
        return (*families, energy)

    def _joules(self, handle: Any) -> float | None:
        return self._ask(lambda nvml, device: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000, handle)

    def _ask(self, read: Callable[[Any, Any], float], handle: Any) -> float | None:
        try:
            return read(self._nvml, handle)
        except self._nvml.NVMLError:
            return None


def _gauge(name: str, text: str, value: float) -> Metric:
    family = Metric(name, text, "gauge")
    family.add_sample(name, {}, value)
    return family


def _text(name: bytes | str) -> str:
    """A text of NVML, whose older modules give bytes."""
    return name.decode() if isinstance(name, bytes) else name
