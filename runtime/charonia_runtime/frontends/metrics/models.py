"""The families with one series for each served model version (cli-and-ops §7)."""

from collections.abc import Callable
from typing import Final

from charonia_runtime.core.server import VersionStatistics
from charonia_runtime.core.statistics import Duration, ModelStatistics
from charonia_runtime.frontends.metrics.exposition import Family, label_text

_INCLUDING: Final = "(includes cached requests)"
_EXCLUDING: Final = "(does not include cached requests)"

_COUNTS: Final[tuple[tuple[str, str, Callable[[ModelStatistics], int]], ...]] = (
    (
        "nv_inference_request_success",
        "Number of successful inference requests, all batch sizes",
        lambda statistics: statistics.success.count,
    ),
    (
        "nv_inference_count",
        f"Number of inferences performed {_EXCLUDING}",
        lambda statistics: statistics.inference_count,
    ),
    (
        "nv_inference_exec_count",
        f"Number of model executions performed {_EXCLUDING}",
        lambda statistics: statistics.execution_count,
    ),
)
_DURATIONS: Final[tuple[tuple[str, str, Callable[[ModelStatistics], Duration]], ...]] = (
    (
        "nv_inference_request_duration_us",
        f"Cumulative inference request duration in microseconds {_INCLUDING}",
        lambda statistics: statistics.success,
    ),
    (
        "nv_inference_queue_duration_us",
        f"Cumulative inference queuing duration in microseconds {_INCLUDING}",
        lambda statistics: statistics.queue,
    ),
    (
        "nv_inference_compute_input_duration_us",
        f"Cumulative compute input duration in microseconds {_EXCLUDING}",
        lambda statistics: statistics.compute_input,
    ),
    (
        "nv_inference_compute_infer_duration_us",
        f"Cumulative compute inference duration in microseconds {_EXCLUDING}",
        lambda statistics: statistics.compute_infer,
    ),
    (
        "nv_inference_compute_output_duration_us",
        f"Cumulative inference compute output duration in microseconds {_EXCLUDING}",
        lambda statistics: statistics.compute_output,
    ),
)


class ModelFamilies:
    """Collects the series of model versions, one `add` each; `families` in Triton's order."""

    def __init__(self, *, counter_latencies: bool = True) -> None:
        self._counter_latencies = counter_latencies
        self._counts = [(Family(name, "counter", text), read) for name, text, read in _COUNTS]
        self._failures = Family(
            "nv_inference_request_failure", "counter", "Number of failed inference requests, all batch sizes"
        )
        self._durations = [(Family(name, "counter", text), read) for name, text, read in _DURATIONS]
        self._cache_hits = Family("nv_cache_num_hits_per_model", "counter", "Number of cache hits per model")
        self._cache_hit_duration = Family(
            "nv_cache_hit_duration_per_model", "counter", "Total cache hit duration per model, in microseconds"
        )
        self._cache_misses = Family("nv_cache_num_misses_per_model", "counter", "Number of cache misses per model")
        self._cache_miss_duration = Family(
            "nv_cache_miss_duration_per_model",
            "counter",
            "Total cache miss (insert+lookup) duration per model, in microseconds",
        )
        self._pending = Family(
            "nv_inference_pending_request_count",
            "gauge",
            "Instantaneous number of pending requests awaiting execution per-model.",
        )

    def add(self, entry: VersionStatistics) -> None:
        """Append the series of one model version. Counters go on where the copies before a reload stopped."""
        names = model_labels(entry)
        labels = label_text(names)
        total = with_earlier(entry)
        for family, count in self._counts:
            family.add(count(total), labels)
        for reason, failures in total.failures.items():
            self._failures.add(failures, label_text({**names, "reason": reason.value}))
        self._pending.add(entry.statistics.pending, labels)
        if not self._counter_latencies:
            return
        for family, duration in self._durations:
            family.add(duration(total).ns // 1000, labels)
        if entry.config.response_cache and (total.cache_hit.count or total.cache_miss.count):
            self._add_cache(total, labels)

    @property
    def families(self) -> list[Family]:
        (success, *counts) = [family for family, _ in self._counts]
        return [
            success,
            self._failures,
            *counts,
            *(family for family, _ in self._durations),
            self._cache_hits,
            self._cache_hit_duration,
            self._cache_misses,
            self._cache_miss_duration,
            self._pending,
        ]

    def _add_cache(self, total: ModelStatistics, labels: str) -> None:
        """Append what the response cache did for a model; nothing looks anything up on a server without a cache."""
        self._cache_hits.add(total.cache_hit.count, labels)
        self._cache_hit_duration.add(total.cache_hit.ns // 1000, labels)
        self._cache_misses.add(total.cache_miss.count, labels)
        self._cache_miss_duration.add(total.cache_miss.ns // 1000, labels)


def model_labels(entry: VersionStatistics) -> dict[str, str]:
    """The labels of a model version's series: name, version, and the tags of its configuration."""
    tags = {f"_{key}": value for key, value in entry.config.metric_tags.items()}
    return {**tags, "model": entry.name, "version": str(entry.version)}


def with_earlier(entry: VersionStatistics) -> ModelStatistics:
    """A version's counters together with those of the copies that reloads replaced."""
    if entry.earlier is None:
        return entry.statistics
    total = ModelStatistics()
    total.add(entry.earlier)
    total.add(entry.statistics)
    return total
