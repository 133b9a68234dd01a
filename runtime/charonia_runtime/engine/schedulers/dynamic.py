"""Dynamic batching: consecutive requests run together, up to a size, as long as they are alike."""

from collections.abc import Hashable

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import DynamicBatching
from charonia_runtime.core.strategy import BatchStrategy
from charonia_runtime.engine.schedulers.queue import Rejection, RequestQueue


class DynamicScheduler:
    """
    Forms a batch only when an instance is idle, out of everything that waits by then.

    Sizes count rows. A request is never split, only a prefix of the queue is combined, and without
    `max_queue_delay_microseconds` nothing ever waits for company.
    """

    __slots__ = (
        "_delay_ns", "_held_until", "_largest_preferred", "_likeness", "_maximum", "_preferred", "_queue", "_strategy",
        "collects", "expires",
    )  # fmt: skip

    def __init__(self, config: ModelConfig, batching: DynamicBatching, strategy: BatchStrategy | None = None) -> None:
        """`strategy` may end a batch before it is as large as the configuration lets it be."""
        self._strategy = strategy
        self._maximum = max(1, config.max_batch_size)
        self._preferred = frozenset(batching.preferred_batch_sizes) or frozenset({self._maximum})
        self._largest_preferred = max(self._preferred)
        self._delay_ns = batching.max_queue_delay_us * 1000
        self._queue = RequestQueue.of(batching)
        self._likeness = Likeness.of(config)
        self._held_until: int | None = None
        self.collects = self._maximum > 1
        self.expires = self._queue.expires

    def enqueue(self, request: InferenceRequest) -> None:
        self._queue.push(request)

    def next_batch(self, now_ns: int, slot: int) -> list[InferenceRequest]:  # noqa: ARG002 - any instance may run it
        self._held_until = None
        strategy = self._strategy
        if strategy is None:
            pending, rows, preferred, closed = self._candidates()
        else:
            strategy.initialize()
            pending, rows, preferred, closed = self._candidates(strategy)
            strategy.finalize()
        if not pending:
            return []
        if self._delay_ns:
            oldest_ns = min([request.queued_ns for request in pending])
            if now_ns - oldest_ns >= self._delay_ns:
                return self._queue.take(len(pending))
            if not (preferred or closed or rows >= self._largest_preferred):
                self._held_until = oldest_ns + self._delay_ns
                return []
        return self._queue.take(preferred or len(pending))

    def expire(self, now_ns: int) -> list[Rejection]:
        return self._queue.expire(now_ns)

    def wake_at(self, *, idle: bool) -> int | None:
        deadline = self._queue.next_deadline() if self.expires else None
        if not idle or self._held_until is None:
            return deadline
        return self._held_until if deadline is None else min(self._held_until, deadline)

    def cancel(self, request: InferenceRequest) -> bool:
        return self._queue.remove(request)

    def drain(self) -> list[InferenceRequest]:
        return self._queue.take(len(self._queue))

    def __len__(self) -> int:
        return len(self._queue)

    def _candidates(self, strategy: BatchStrategy | None = None) -> tuple[list[InferenceRequest], int, int, bool]:
        """
        The longest prefix of the queue that may run together, and its rows; how many of these requests make the
        largest preferred size (0 for none); whether the batch is closed, because nothing more would fit.
        """
        pending: list[InferenceRequest] = []
        rows = preferred = 0
        likeness = self._likeness
        first: Hashable = None
        for request in self._queue:
            after = rows + request.batch_size
            if pending:
                if after > self._maximum:
                    return pending, rows, preferred, True
                if likeness is not None and likeness.of_request(request) != first:
                    return pending, rows, preferred, True
                if strategy is not None and not strategy.include(request):
                    return pending, rows, preferred, True
                if not preferred and self._delay_ns and after > self._largest_preferred:
                    preferred = len(pending)
            else:
                if likeness is not None:
                    first = likeness.of_request(request)
                if strategy is not None:
                    strategy.include(request)
            pending.append(request)
            rows = after
            if rows in self._preferred:
                preferred = len(pending)
        return pending, rows, preferred, False


class Likeness:
    """What requests must have in common to run in one batch."""

    __slots__ = ("_by_name", "_by_shape", "_by_value")

    def __init__(self, by_shape: tuple[str, ...], by_value: tuple[str, ...], *, by_name: bool) -> None:
        """`by_shape`: inputs of equal shape, the batch aside; `by_value`: of equal contents; `by_name`: all names."""
        self._by_shape = by_shape
        self._by_value = by_value
        self._by_name = by_name

    @classmethod
    def of(cls, config: ModelConfig) -> "Likeness | None":
        """What the model demands; None where any two requests fit together."""
        by_shape = tuple(spec.name for spec in config.inputs if -1 in spec.dims and not spec.allow_ragged)
        by_shape += tuple(state.input_name for state in config.states if -1 in state.dims)
        by_value = tuple(spec.name for spec in config.inputs if spec.is_shape_tensor)
        by_name = any(spec.optional for spec in config.inputs)
        return cls(by_shape, by_value, by_name=by_name) if by_shape or by_value or by_name else None

    def of_request(self, request: InferenceRequest) -> Hashable:
        """Equal for requests that are alike."""
        inputs = request.inputs
        shapes = [inputs[name].shape[1:] for name in self._by_shape if name in inputs]
        values = [bytes(inputs[name].buffer) for name in self._by_value if name in inputs]
        return (frozenset(inputs) if self._by_name else None, *shapes, *values)
