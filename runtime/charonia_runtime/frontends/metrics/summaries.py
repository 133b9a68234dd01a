"""Quantiles of the last minute's requests (`--metrics-config=summary_latencies=true`)."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from charonia_runtime.core.server import VersionStatistics
from charonia_runtime.core.statistics import Duration, ExecutionTimes, ModelStatistics
from charonia_runtime.frontends.metrics.exposition import number
from charonia_runtime.frontends.metrics.models import model_labels, with_earlier

WINDOW_NS: Final = 60_000_000_000
_SLOTS: Final = 5
_SLOT_NS: Final = WINDOW_NS // _SLOTS
_GROWTH: Final = 1.01
"""Each bucket's bound is so many times the one before: no quantile is off by more than half a percent."""
_LOG_GROWTH: Final = math.log(_GROWTH)

_FAMILIES: Final[tuple[tuple[str, str, Callable[[ModelStatistics], Duration]], ...]] = (
    (
        "nv_inference_request_summary_us",
        "Summary of inference request duration in microseconds (includes cached requests)",
        lambda statistics: statistics.success,
    ),
    (
        "nv_inference_queue_summary_us",
        "Summary of inference queuing duration in microseconds (includes cached requests)",
        lambda statistics: statistics.queue,
    ),
    (
        "nv_inference_compute_input_summary_us",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        lambda statistics: statistics.compute_input,
    ),
    (
        "nv_inference_compute_infer_summary_us",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        lambda statistics: statistics.compute_infer,
    ),
    (
        "nv_inference_compute_output_summary_us",
        "Cumulative inference compute output duration in microseconds (does not include cached requests)",
        lambda statistics: statistics.compute_output,
    ),
)

_LOOKUP_FAMILIES: Final[tuple[tuple[str, str, Callable[[ModelStatistics], Duration]], ...]] = (
    (
        "nv_cache_hit_summary_per_model",
        "Summary of cache hit duration per model, in microseconds",
        lambda statistics: statistics.cache_hit,
    ),
    (
        "nv_cache_miss_summary_per_model",
        "Summary of cache miss (insert+lookup) duration per model, in microseconds",
        lambda statistics: statistics.cache_miss,
    ),
)
"""Only models with a response cache have these."""


_Key = tuple[str, str, int]


def _key(entry: VersionStatistics) -> _Key:
    return entry.namespace, entry.name, entry.version


class Window:
    """
    Durations in microseconds of the last minute, counted in buckets that grow by a hundredth.

    Takes the same little memory for ten requests and for a million.
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[tuple[int, Counter[int]]] = []

    def add(self, duration_ns: int, now_ns: int) -> None:
        turn = now_ns // _SLOT_NS
        if not self._slots or self._slots[-1][0] < turn:
            self._slots = [slot for slot in self._slots if slot[0] > turn - _SLOTS]
            self._slots.append((turn, Counter()))
        microseconds = duration_ns // 1000
        bucket = math.ceil(math.log(microseconds) / _LOG_GROWTH) if microseconds > 0 else -1
        self._slots[-1][1][bucket] += 1

    def quantiles(self, wanted: Sequence[float], now_ns: int) -> list[float]:
        """The wanted quantiles in microseconds; NaN where nothing happened."""
        oldest = now_ns // _SLOT_NS - _SLOTS
        merged: Counter[int] = Counter()
        for turn, buckets in self._slots:
            if turn > oldest:
                merged.update(buckets)
        return [_quantile(merged, quantile) for quantile in wanted]


class ModelWindows:
    """The windows of one model version, one for each family; its methods are observers of `core.statistics`."""

    __slots__ = ("lookups", "windows")

    def __init__(self) -> None:
        self.windows = tuple(Window() for _ in _FAMILIES)
        self.lookups = tuple(Window() for _ in _LOOKUP_FAMILIES)

    def observe_lookup(self, hit: bool, duration_ns: int, now_ns: int) -> None:
        """A `LookupObserver`."""
        hits, misses = self.lookups
        (hits if hit else misses).add(duration_ns, now_ns)

    def observe(self, arrival_ns: int, queued_ns: int, times: ExecutionTimes) -> None:
        request, queue, compute_input, compute_infer, compute_output = self.windows
        now = times.end
        request.add(now - arrival_ns, now)
        queue.add(times.start - queued_ns, now)
        compute_input.add(times.inputs_ready - times.start, now)
        compute_infer.add(times.outputs_ready - times.inputs_ready, now)
        compute_output.add(now - times.outputs_ready, now)


class SummaryCollector(Collector):
    """
    Yields the summaries of the model versions that it watches. Those with a response cache have none of whole requests.

    A version is observed from the first time that it is seen here; its counts and sums reach back to its load.
    """

    def __init__(self, quantiles: Sequence[float], gpu_uuids: Mapping[int, str]) -> None:
        self._quantiles = [(quantile, number(quantile)) for quantile in quantiles]
        self._gpu_uuids = gpu_uuids
        self._entries: Sequence[VersionStatistics] = ()
        self._models: dict[_Key, ModelWindows] = {}

    def watch(self, entries: Sequence[VersionStatistics]) -> None:
        """Observe these versions and forget all others."""
        self._models = {key: self._models.get(key) or ModelWindows() for key in map(_key, entries)}
        self._entries = entries
        for entry in entries:
            windows = self._models[_key(entry)]
            entry.statistics.observer = windows.observe
            entry.statistics.lookup_observer = windows.observe_lookup if entry.statistics.cached else None

    @override
    def collect(self) -> Iterator[Metric]:
        now_ns = time.monotonic_ns()
        for index, (name, text, read) in enumerate(_FAMILIES):
            family = Metric(name, text, "summary")
            for entry in self._entries:
                total = with_earlier(entry)
                if read(total) is total.success and entry.statistics.cached:
                    continue
                window = self._models[_key(entry)].windows[index]
                self._add(family, model_labels(entry, self._gpu_uuids), read(total), window, now_ns)
            yield family
        for index, (name, text, read) in enumerate(_LOOKUP_FAMILIES):
            family = Metric(name, text, "summary")
            for entry in self._entries:
                if entry.statistics.cached:
                    window = self._models[_key(entry)].lookups[index]
                    labels = model_labels(entry, self._gpu_uuids)
                    self._add(family, labels, read(with_earlier(entry)), window, now_ns)
            if family.samples:
                yield family

    def _add(self, family: Metric, labels: dict[str, str], duration: Duration, window: Window, now_ns: int) -> None:
        family.add_sample(f"{family.name}_count", labels, duration.count)
        family.add_sample(f"{family.name}_sum", labels, duration.ns // 1000)
        values = window.quantiles([quantile for quantile, _ in self._quantiles], now_ns)
        for (_, text), value in zip(self._quantiles, values, strict=True):
            family.add_sample(family.name, {**labels, "quantile": text}, value)


def _quantile(buckets: Counter[int], quantile: float) -> float:
    """The value that so much of all durations do not exceed: the middle of its bucket, in whole microseconds."""
    rank = max(math.ceil(quantile * buckets.total()), 1)
    for bucket in sorted(buckets):
        rank -= buckets[bucket]
        if rank <= 0:
            return float(round(2 * _GROWTH**bucket / (_GROWTH + 1))) if bucket >= 0 else 0.0
    return math.nan
