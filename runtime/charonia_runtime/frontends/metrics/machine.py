"""Gauges of the machine: CPU and memory from /proc, GPUs through NVML, looked at by a thread now and then."""

import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from charonia_runtime.frontends.metrics.exposition import Family, label_text

logger = logging.getLogger(__name__)

Probe = Callable[[], Sequence[Family]]
"""Looks at a part of the machine; may block."""


class Sampler:
    """
    Asks probes every `interval_seconds` in a thread of its own, so that no scrape waits for a driver.

    `find_probes` is called in the thread as well. `families` is what the last round found. A probe that fails is
    logged once and not asked again.
    """

    def __init__(self, find_probes: Callable[[], Sequence[Probe]], interval_seconds: float) -> None:
        self.families: tuple[Family, ...] = ()
        self._find_probes = find_probes
        self._interval_seconds = interval_seconds
        self._sampled = threading.Event()
        self._stopping = threading.Event()
        # A daemon: a thread that hangs in a driver must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="metrics-sampler", daemon=True)

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
            self.families = tuple(self._ask(probes))
            self._sampled.set()
            if self._stopping.wait(self._interval_seconds):
                return
        self._sampled.set()

    @staticmethod
    def _ask(probes: list[Probe]) -> list[Family]:
        """What the probes see; those that fail leave the list."""
        found: list[Family] = []
        for probe in list(probes):
            try:
                found += probe()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises
                logger.warning("metrics of the machine are incomplete: %s", error)
                probes.remove(probe)
        return found


class CpuProbe:
    """CPU time since the last look, and memory. Linux only: elsewhere /proc is missing and the probe fails."""

    def __init__(self, directory: Path = Path("/proc")) -> None:
        self._directory = directory
        self._busy = self._total = 0

    def __call__(self) -> Sequence[Family]:
        total_bytes, available_bytes = self._memory()
        return (
            Family("nv_cpu_utilization", "gauge", "CPU utilization rate [0.0 - 1.0]").add(self._utilization()),
            Family("nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes").add(total_bytes),
            Family("nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes").add(
                total_bytes - available_bytes
            ),
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


_GPU_GAUGES: Final[tuple[tuple[str, str, str, Callable[[Any, Any], float]], ...]] = (
    (
        "nv_gpu_utilization",
        "gauge",
        "GPU utilization rate [0.0 - 1.0)",
        lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
    ),
    (
        "nv_gpu_memory_total_bytes",
        "gauge",
        "GPU total memory, in bytes",
        lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).total,
    ),
    (
        "nv_gpu_memory_used_bytes",
        "gauge",
        "GPU used memory, in bytes",
        lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used,
    ),
    (
        "nv_gpu_power_usage",
        "gauge",
        "GPU power usage in watts",
        lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    ),
    (
        "nv_gpu_power_limit",
        "gauge",
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
        self._devices = [
            (handle, label_text({"gpu_uuid": _text(nvml.nvmlDeviceGetUUID(handle))})) for handle in handles
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

    def __call__(self) -> Sequence[Family]:
        families = []
        for name, kind, text, read in _GPU_GAUGES:
            family = Family(name, kind, text)
            for handle, labels in self._devices:
                value = self._ask(read, handle)
                if value is not None:
                    family.add(value, labels)
            families.append(family)
        energy = Family(
            "nv_energy_consumption", "counter", "GPU energy consumption in joules since the Triton Server started"
        )
        for (handle, labels), first in zip(self._devices, self._first_joules, strict=True):
            joules = self._joules(handle)
            if joules is not None and first is not None:
                energy.add(joules - first, labels)
        return (*families, energy)

    def _joules(self, handle: Any) -> float | None:
        return self._ask(lambda nvml, device: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000, handle)

    def _ask(self, read: Callable[[Any, Any], float], handle: Any) -> float | None:
        try:
            return read(self._nvml, handle)
        except self._nvml.NVMLError:
            return None


def _text(name: bytes | str) -> str:
    """A text of NVML, whose older modules give bytes."""
    return name.decode() if isinstance(name, bytes) else name
