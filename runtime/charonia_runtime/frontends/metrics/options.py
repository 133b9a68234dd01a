"""The flags of the group Metrics."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.frontend import OptionError, option

_TRUE = {"true", "on", "1"}


@dataclass(frozen=True, slots=True)
class Options:
    """Whether and where metrics are served, and which. Raises OptionError for a malformed value."""

    enabled: bool = option(True, "Serve Prometheus metrics over HTTP.", flag="allow-metrics")
    allow_gpu_metrics: bool = option(True, "Serve metrics of the GPUs.")
    allow_cpu_metrics: bool = option(True, "Serve metrics of CPU and memory.")
    metrics_address: str = option("", "Address to listen on. Default: the one of --http-address.", metavar="<address>")
    metrics_port: int = option(8002, "Port to listen on.")
    metrics_interval_ms: float = option(2000.0, "Milliseconds between two looks at GPUs, CPU and memory.")
    metrics_config: tuple[str, ...] = option(
        (),
        "counter_latencies=<boolean> (on), summary_latencies=<boolean> (off), summary_quantiles=<quantile>:<error>,... "
        "histogram_latencies=<boolean> (off) or repository_index=<boolean> (off), which also serves the list of models "
        "at GET /v2/repository/index for platforms that watch over them. May be given several times.",
        metavar="<setting>=<value>",
    )
    pinned_memory_pool_bytes: int = 268_435_456
    """What `nv_pinned_memory_pool_total_bytes` shows: the value of a flag that belongs elsewhere."""

    def __post_init__(self) -> None:
        for setting in self.metrics_config:
            if "=" not in setting:
                raise OptionError(
                    "metrics-config", f"--metrics-config option format is <setting>=<value>. Got {setting}"
                )
        if not (math.isfinite(self.metrics_interval_ms) and self.metrics_interval_ms > 0):
            raise OptionError(
                "metrics-interval-ms",
                f"invalid value for --metrics-interval-ms: expected a number > 0, got {self.metrics_interval_ms}",
            )
        if not 0 <= self.metrics_port <= 65535:
            raise OptionError(
                "metrics-port",
                f"invalid value for --metrics-port: expected a port from 0 to 65535, got {self.metrics_port}",
            )

    @property
    def counter_latencies(self) -> bool:
        """Whether the counters of durations and of the response cache are shown."""
        return self._switch("counter_latencies", default=True)

    @property
    def summary_latencies(self) -> bool:
        """Whether the summaries of durations are shown."""
        return self._switch("summary_latencies", default=False)

    @property
    def histogram_latencies(self) -> bool:
        """Whether the time to the first response is counted in a histogram for each model."""
        return self._switch("histogram_latencies", default=False)

    @property
    def repository_index(self) -> bool:
        """Whether the list of models is served beside the metrics: like these, to everybody who reaches the port."""
        return self._switch("repository_index", default=False)

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles of summaries. The errors asked for do not matter: ours are half a percent."""
        text = self._settings.get("summary_quantiles", "0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001")
        found = []
        for part in text.split(","):
            try:
                quantile = float(part.partition(":")[0])
            except ValueError:
                continue
            if 0 <= quantile <= 1:
                found.append(quantile)
        return tuple(found)

    @property
    def _settings(self) -> Mapping[str, str]:
        return {name: value for name, _, value in (setting.partition("=") for setting in self.metrics_config)}

    def _switch(self, name: str, *, default: bool) -> bool:
        value = self._settings.get(name)
        return default if value is None else value.lower() in _TRUE
