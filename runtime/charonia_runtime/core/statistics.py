"""Counters of one loaded model version: one source for the statistics endpoint and the metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from charonia_runtime.core.histogram import Histogram

FIRST_RESPONSE_FAMILY: Final = "nv_inference_first_response_histogram_ms"
"""What configurations call the histogram whose buckets they choose (`ModelConfig.histogram_buckets`)."""
FIRST_RESPONSE_BOUNDS_MS: Final = (100.0, 500.0, 2000.0, 5000.0)
"""Its buckets where they choose none."""


@dataclass(slots=True)
class Duration:
    """How often something happened and how long it took in all."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        self.count += count
        self.ns += ns


class FailureReason(Enum):
    """The `reason` label of failed requests."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"


@dataclass(slots=True)
class BatchStatistics:
    """Executions of one total batch size."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)


@dataclass(slots=True)
class ResponseStatistics:
    """Responses of one index of decoupled models, filled by backends that report it."""

    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    empty_response: Duration = field(default_factory=Duration)
    cancel: Duration = field(default_factory=Duration)


@dataclass(slots=True)
class ExecutionTimes:
    """Monotonic clock at the four edges of one execution, in nanoseconds."""

    start: int
    inputs_ready: int
    outputs_ready: int
    end: int


Observer = Callable[[int, int, ExecutionTimes], None]
"""Is told of every request that was answered: its arrival, when it was queued, and its execution."""

LookupObserver = Callable[[bool, int, int], None]
"""
Is told of every request that the response cache was asked for: whether it was found, how long that took in nanoseconds
(with the insertion of what was not found), and the time on the monotonic clock.
"""

_DURATIONS = (
    "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
)  # fmt: skip


@dataclass(slots=True)
class ModelStatistics:
    """Counters, changed on the event loop's thread only. Durations are nanoseconds of the monotonic clock."""

    last_inference_ms: int = 0
    """Milliseconds since the epoch at the end of the last execution; 0 for never."""
    inference_count: int = 0
    execution_count: int = 0
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    cache_hit: Duration = field(default_factory=Duration)
    cache_miss: Duration = field(default_factory=Duration)
    batches: dict[int, BatchStatistics] = field(default_factory=dict)
    responses: dict[str, ResponseStatistics] = field(default_factory=dict)
    failures: dict[FailureReason, int] = field(default_factory=lambda: dict.fromkeys(FailureReason, 0))
    pending: int = 0
    """Requests accepted and not yet handed to the backend."""
    load_ns: int = 0
    """How long the load took."""
    cached: bool = False
    """Whether a response cache stands in front of the model."""
    first_response: Histogram | None = None
    """Milliseconds from a request's arrival to its first response; None where nobody asked for them."""
    observer: Observer | None = field(default=None, compare=False, repr=False)
    """Set by whoever needs single requests and not only sums, such as quantiles."""

    lookup_observer: LookupObserver | None = field(default=None, compare=False, repr=False)
    """The same for requests to the response cache."""

    def record_lookup(self, duration_ns: int, now_ns: int, *, hit: bool) -> None:
        """Count one request that the response cache was asked for."""
        (self.cache_hit if hit else self.cache_miss).add(duration_ns)
        if self.lookup_observer is not None:
            self.lookup_observer(hit, duration_ns, now_ns)

    def record_execution(self, batch_size: int, times: ExecutionTimes, finished_ms: int) -> None:
        """Count one call of the backend with `batch_size` rows in all, failed or not."""
        self.execution_count += 1
        self.last_inference_ms = finished_ms
        batch = self.batches.get(batch_size)
        if batch is None:
            batch = self.batches[batch_size] = BatchStatistics()
        batch.compute_input.add(times.inputs_ready - times.start)
        batch.compute_infer.add(times.outputs_ready - times.inputs_ready)
        batch.compute_output.add(times.end - times.outputs_ready)

    def record_successes(self, count: int, rows: int, total_ns: int, queue_ns: int, times: ExecutionTimes) -> None:
        """
        Count `count` answered requests of one execution, with `rows` rows in all.

        `total_ns` is the sum of their times from arrival to answer, `queue_ns` of those from queue to execution.
        """
        self.inference_count += rows
        self.success.add(total_ns, count)
        self.queue.add(queue_ns, count)
        self.compute_input.add((times.inputs_ready - times.start) * count, count)
        self.compute_infer.add((times.outputs_ready - times.inputs_ready) * count, count)
        self.compute_output.add((times.end - times.outputs_ready) * count, count)

    def record_failure(self, duration_ns: int, reason: FailureReason) -> None:
        """Count one request that failed after it was accepted."""
        self.fail.add(duration_ns)
        self.failures[reason] += 1

    def add(self, other: "ModelStatistics") -> None:
        """Add the counters that metrics show of another copy of the model."""
        self.inference_count += other.inference_count
        self.execution_count += other.execution_count
        for name in _DURATIONS:
            duration: Duration = getattr(other, name)
            getattr(self, name).add(duration.ns, duration.count)
        for reason, count in other.failures.items():
            self.failures[reason] += count
        if other.first_response is not None:
            self.first_response = (self.first_response or Histogram(other.first_response.bounds)) + other.first_response
