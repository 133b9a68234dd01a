"""Quantiles of the last minute's requests (`--metrics-config=summary_latencies=true`, cli-and-ops §7.2)."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from charonia_runtime.core.server import VersionStatistics
from charonia_runtime.core.statistics import Duration, ExecutionTimes, ModelStatistics
from charonia_runtime.frontends.metrics.exposition import Family, label_text, number
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
    """The windows of one model version, one for each family; `observe` is a `core.statistics.Observer`."""

    __slots__ = ("windows",)

    def __init__(self) -> None:
        self.windows = tuple(Window() for _ in _FAMILIES)

    def observe(self, arrival_ns: int, queued_ns: int, times: ExecutionTimes) -> None:
        request, queue, compute_input, compute_infer, compute_output = self.windows
        now = times.end
        request.add(now - arrival_ns, now)
        queue.add(times.start - queued_ns, now)
        compute_input.add(times.inputs_ready - times.start, now)
        compute_infer.add(times.outputs_ready - times.inputs_ready, now)
        compute_output.add(now - times.outputs_ready, now)


class Summaries:
    """
    The summaries of all model versions.

    A version is observed from the first time that it is seen here; its counts and sums reach back to its load.
    """

    def __init__(self, quantiles: Sequence[float]) -> None:
        self._quantiles = quantiles
        self._models: dict[tuple[str, int], ModelWindows] = {}

    def watch(self, entries: Sequence[VersionStatistics]) -> None:
        """Observe these versions and forget all others."""
        self._models = {
            key: self._models.get(key) or ModelWindows() for key in ((entry.name, entry.version) for entry in entries)
        }
        for entry in entries:
            entry.statistics.observer = self._models[entry.name, entry.version].observe

    def families(self, entries: Sequence[VersionStatistics], now_ns: int) -> list[Family]:
        """The summaries of versions that are watched. Those with a response cache have none of whole requests."""
        families = [Family(name, "summary", text) for name, text, _ in _FAMILIES]
        for entry in entries:
            names = model_labels(entry)
            labels = label_text(names)
            quantile_labels = [label_text(names, number(quantile)) for quantile in self._quantiles]
            total = with_earlier(entry)
            windows = self._models[entry.name, entry.version].windows
            for family, (_, _, read), window in zip(families, _FAMILIES, windows, strict=True):
                duration = read(total)
                if entry.config.response_cache and duration is total.success:
                    continue
                family.add(duration.count, labels, "_count")
                family.add(duration.ns // 1000, labels, "_sum")
                for text, value in zip(quantile_labels, window.quantiles(self._quantiles, now_ns), strict=True):
                    family.add(value, text)
        return families


def _quantile(buckets: Counter[int], quantile: float) -> float:
    """The value that so much of all durations do not exceed: the middle of its bucket, in whole microseconds."""
    rank = max(math.ceil(quantile * buckets.total()), 1)
    for bucket in sorted(buckets):
        rank -= buckets[bucket]
        if rank <= 0:
            return float(round(2 * _GROWTH**bucket / (_GROWTH + 1))) if bucket >= 0 else 0.0
    return math.nan
