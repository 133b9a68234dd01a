"""What is recorded of one request: its times, and its tensors where they are wanted."""

import time
from collections.abc import Callable
from typing import Protocol

from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ResponseSink
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.tracing.sampling import Sampler

Tensors = list[Tensor]


class Destination(Protocol):
    """Where finished traces go. Used on the event loop's thread."""

    def write(self, trace: "RequestTrace") -> None:
        """Keep a trace that nothing happens to any more; those that a request spawned come before its own."""

    def context_of(self, trace: "RequestTrace") -> str | None:
        """See `core.request.Trace.context`. The request of the trace has been submitted."""

    def drop(self, sampler: Sampler) -> None:
        """These settings hold no more: what was collected under them may be written."""

    joins_traces: bool
    """Whether a request that comes with a trace of its client's is part of that."""

    def close(self) -> None:
        """Write what is left; blocks."""


class RequestTrace:
    """
    Implements `core.tracing.Trace`. Goes to its destination once its request is answered and its frontend done.

    Nothing of the request's way is changed: the trace stands in front of its sink, and hears of its execution.
    """

    __slots__ = (
        "_destination", "_is_new", "_new_id", "_open", "_request", "end_ns", "id", "inputs", "model_name",
        "model_version", "outputs", "parent", "queue_ns", "received", "request_id", "response_ns", "sampler", "sent",
        "spans", "start_ns", "times", "traceparent",
    )  # fmt: skip

    def __init__(
        self,
        model: str,
        sampler: Sampler,
        destination: Destination,
        new_id: Callable[[], int],
        *,
        parent: "RequestTrace | None" = None,
        traceparent: str | None = None,
    ) -> None:
        self.id = new_id()
        self.model_name = model
        self.model_version = 0
        self.request_id = ""
        self.sampler = sampler
        self.parent = parent
        """The trace of the request that made this one: an ensemble's, or that of a model that calls another."""
        self.traceparent = traceparent
        """What the client calls its own trace, W3C."""
        self.received: list[tuple[str, int]] = []
        self.sent: list[tuple[str, int]] = []
        """What the frontend told before and after the request was submitted: names and times."""
        self.start_ns = self.queue_ns = 0
        self.times: ExecutionTimes | None = None
        """Of the execution; None for requests that were refused, answered from a cache, or to ensembles."""
        self.inputs: Tensors = []
        self.outputs: Tensors = []
        self.response_ns: list[int] = []
        self.end_ns = 0
        """0 for a request that was refused."""
        self._is_new = True
        """Whether its request is still being read."""
        self._request: InferenceRequest | None = None
        self._destination = destination
        self._new_id = new_id
        self._open = 1 if parent is None else 0
        """What has to end before it is finished: the frontend, where it has one, and the request itself."""
        self.spans: object = None
        """The destination's own."""

    @property
    def parent_id(self) -> int:
        """Of the trace of the request that made this one; 0 for none."""
        return 0 if self.parent is None else self.parent.id

    @property
    def wants_tensors(self) -> bool:
        return "TENSORS" in self.sampler.values.levels

    @property
    def wants_times(self) -> bool:
        return "TIMESTAMPS" in self.sampler.values.levels

    def note(self, name: str, ns: int) -> None:
        notes = self.received if self._is_new else self.sent
        notes.append((name, ns))

    def follow(self, request: InferenceRequest, *, ensemble: bool) -> None:
        self._is_new = False
        self._open += 1
        self._request = request
        self.request_id = request.id
        request.sink = _TracedSink(self, request.sink)
        if self.wants_tensors:
            self.inputs = list(request.inputs.values())
        if not ensemble:
            request.executed = _Listener(self, request.executed)

    def spawn(self, model: str) -> "RequestTrace":
        return RequestTrace(model, self.sampler, self._destination, self._new_id, parent=self)

    def context(self) -> str | None:
        return self._destination.context_of(self)

    def begin(self) -> None:
        """Note when the request began; for destinations that ask before it has its answer."""
        request = self._request
        if request is not None:
            self.start_ns, self.queue_ns = request.arrival_ns, request.queued_ns

    def refused(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        if isinstance(request.sink, _TracedSink):
            request.sink = request.sink.sink
        if isinstance(request.executed, _Listener):
            request.executed = request.executed.following
        self.end()

    def end(self) -> None:
        self._open -= 1
        if not self._open:
            self._destination.write(self)

    def responded(self, response: InferenceResponse) -> None:
        """The request is answered, perhaps not for the last time."""
        self.model_version = response.model_version
        if not response.flag_only and self.parent is None:
            self.response_ns.append(time.monotonic_ns())
        if self.wants_tensors:
            self.outputs += response.outputs

    def answered(self) -> None:
        """The last response is delivered."""
        self.begin()
        self._request = None
        self.end_ns = time.monotonic_ns()
        self.end()


class _TracedSink:
    """In front of the sink of a request that is traced."""

    __slots__ = ("_trace", "sink")

    def __init__(self, trace: RequestTrace, sink: ResponseSink) -> None:
        self._trace = trace
        self.sink = sink

    def send(self, response: InferenceResponse) -> None:
        trace = self._trace
        trace.responded(response)
        if trace.parent is not None and response.final:
            trace.answered()  # before the trace of whoever made the request, which may be finished by this answer
            self.sink.send(response)
            return
        try:
            self.sink.send(response)
        finally:
            if response.final:
                trace.answered()


class _Listener:
    """Hears of the execution of a request that is traced, and tells whoever wanted to know."""

    __slots__ = ("_trace", "following")

    def __init__(self, trace: RequestTrace, following: Callable[[ExecutionTimes], None] | None) -> None:
        self._trace = trace
        self.following = following

    def __call__(self, times: ExecutionTimes) -> None:
        self._trace.times = times
        if self.following is not None:
            self.following(times)
