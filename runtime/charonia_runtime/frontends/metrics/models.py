"""The families with one series for each served model version."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from charonia_runtime.core.config import InstanceKind
from charonia_runtime.core.server import VersionStatistics
from charonia_runtime.core.statistics import FIRST_RESPONSE_FAMILY, Duration, ModelStatistics
from charonia_runtime.frontends.metrics.histograms import add_histogram

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


_CACHE: Final[tuple[tuple[str, str, Callable[[ModelStatistics], int]], ...]] = (
    (
        "nv_cache_num_hits_per_model",
        "Number of cache hits per model",
        lambda statistics: statistics.cache_hit.count,
    ),
    (
        "nv_cache_hit_duration_per_model",
        "Total cache hit duration per model, in microseconds",
        lambda statistics: statistics.cache_hit.ns // 1000,
    ),
    (
        "nv_cache_num_misses_per_model",
        "Number of cache misses per model",
        lambda statistics: statistics.cache_miss.count,
    ),
    (
        "nv_cache_miss_duration_per_model",
        "Total cache miss (insert+lookup) duration per model, in microseconds",
        lambda statistics: statistics.cache_miss.ns // 1000,
    ),
)


class _Series(NamedTuple):
    """What all series of one model version need."""

    entry: VersionStatistics
    total: ModelStatistics
    labels: dict[str, str]


class ModelCollector(Collector):
    """
    Yields the families of models in Triton's order, each with a series for every version in `entries`.

    `gpu_uuids` names the GPUs by their ids. Counters go on where the copies before a reload stopped.
    """

    def __init__(self, gpu_uuids: Mapping[int, str], *, counter_latencies: bool = True) -> None:
        self.entries: Sequence[VersionStatistics] = ()
        self._gpu_uuids = gpu_uuids
        self._counter_latencies = counter_latencies

    @override
    def collect(self) -> Iterator[Metric]:
        series = [_Series(entry, with_earlier(entry), model_labels(entry, self._gpu_uuids)) for entry in self.entries]
        success, *counts = [_counter(series, name, text, read) for name, text, read in _COUNTS]
        yield success
        yield _failures(series)
        yield from counts
        if self._counter_latencies:
            for name, text, read_duration in _DURATIONS:
                yield _counter(series, name, text, _microseconds(read_duration))
            cached = [one for one in series if one.entry.statistics.cached]
            for name, text, read in _CACHE:
                yield _counter(cached, name, text, read)
        yield _pending(series)
        yield _load_durations(series)
        yield _first_responses(series)


def _counter(series: Iterable[_Series], name: str, text: str, read: Callable[[ModelStatistics], int]) -> Metric:
    family = Metric(name, text, "counter")
    for one in series:
        family.add_sample(name, one.labels, read(one.total))
    return family


def _microseconds(read: Callable[[ModelStatistics], Duration]) -> Callable[[ModelStatistics], int]:
    return lambda total: read(total).ns // 1000


def _failures(series: Iterable[_Series]) -> Metric:
    name = "nv_inference_request_failure"
    family = Metric(name, "Number of failed inference requests, all batch sizes", "counter")
    for one in series:
        for reason, count in one.total.failures.items():
            family.add_sample(name, {**one.labels, "reason": reason.value}, count)
    return family


def _pending(series: Iterable[_Series]) -> Metric:
    name = "nv_inference_pending_request_count"
    family = Metric(name, "Instantaneous number of pending requests awaiting execution per-model.", "gauge")
    for one in series:
        family.add_sample(name, one.labels, one.entry.statistics.pending)
    return family


def _load_durations(series: Iterable[_Series]) -> Metric:
    name = "nv_model_load_duration_secs"
    family = Metric(name, "Model load time in seconds", "gauge")
    for one in series:
        family.add_sample(name, one.labels, one.entry.statistics.load_ns / 1e9)
    return family


def _first_responses(series: Iterable[_Series]) -> Metric:
    """Only models whose first responses are counted have them (`--metrics-config=histogram_latencies=true`)."""
    family = Metric(FIRST_RESPONSE_FAMILY, "Duration from request to first response in milliseconds", "histogram")
    for one in series:
        if one.total.first_response is not None:
            add_histogram(family, one.labels, one.total.first_response)
    return family


def model_labels(entry: VersionStatistics, gpu_uuids: Mapping[int, str]) -> dict[str, str]:
    """
    The labels of a model version's series: name, version, namespace if any, tags of its configuration, GPU.

    A model on several GPUs is counted as a whole, so that its series name none of them.
    """
    labels = {f"_{key}": value for key, value in entry.config.metric_tags.items()}
    labels |= {"model": entry.name, "version": str(entry.version)}
    if entry.namespace:
        labels["namespace"] = entry.namespace
    devices = {
        device
        for group in entry.config.instance_groups
        if group.kind is InstanceKind.GPU and not group.passive
        for device in group.gpus
    }
    if len(devices) == 1:
        uuid = gpu_uuids.get(devices.pop())
        if uuid is not None:
            labels["gpu_uuid"] = uuid
    return labels


def with_earlier(entry: VersionStatistics) -> ModelStatistics:
    """A version's counters together with those of the copies that reloads replaced."""
    if entry.earlier is None:
        return entry.statistics
    total = ModelStatistics()
    total.add(entry.earlier)
    total.add(entry.statistics)
    return total
