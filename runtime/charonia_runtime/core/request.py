"""An inference request, its responses, and the sink they are sent to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor

ParameterValue = bool | int | float | str
"""What a request or response parameter may hold. Test for bool before int."""

ANY_VERSION = -1
"""The model version of a request that names none: the largest version that is ready."""


@dataclass(slots=True)
class RequestedOutput:
    """An output that the client asked for by name; how it is encoded on the wire stays with the codec."""

    name: str
    classes: int = 0
    """The classification extension's number of classes; 0 for the tensor itself."""
    shared_memory: SharedMemoryRef | None = None
    """Where the client wants the tensor's bytes instead of in the response."""
    memory: memoryview | DeviceBuffer | None = None
    """The bytes that `shared_memory` names; set by the engine's admission."""
    on_device: bool = False
    """Whether the sink takes the tensor from a device's memory where the model leaves it there."""


@dataclass(slots=True, frozen=True)
class SequenceId:
    """A request's place in a sequence. Integer and string ids are distinct; 0 and "" mean none."""

    correlation_id: int | str
    start: bool = False
    end: bool = False


@dataclass(slots=True)
class InferenceResponse:
    """
    One answer to one request. With `error` set, outputs are empty.

    `model_version` is the version that ran. `flag_only` marks an answer that carries nothing but the final flag: a
    decoupled model that ended after its last response.
    """

    model_name: str
    model_version: int
    id: str = ""
    outputs: list[Tensor] = field(default_factory=list)
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    error: InferenceError | None = None
    final: bool = True
    flag_only: bool = False
    failed: bool = False
    """Whether `error` counts as a failure of the backend; an error that a model chose to answer with does not."""
    refused: bool = False
    """Whether `error` is what `submit` would have raised, had the server been in this process. It comes alone."""


class ResponseSink(Protocol):
    """Where a request's responses go. The engine calls `send` on the event loop's thread, in order; `final` ends it."""

    def send(self, response: InferenceResponse) -> None: ...


class ResponseFlow(Protocol):
    """How a frontend whose client reads slowly holds a decoupled model back. Used on the event loop's thread."""

    def when_ready(self, resume: Callable[[], None]) -> None:
        """
        Call `resume` once the request may have another response: at once, or when its client has read some.

        It is called in any case, at the latest when the client is gone.
        """


class Trace(Protocol):
    """One request that is being recorded. Used on the event loop's thread. Times are the monotonic clock's."""

    def note(self, name: str, ns: int) -> None:
        """Something happened in the frontend, for instance `HTTP_RECV_START`."""

    def follow(self, request: "InferenceRequest", *, ensemble: bool) -> None:
        """Record what becomes of `request`, which is about to be submitted to its model."""

    def spawn(self, model: str) -> "Trace":
        """
        A trace of its own for a request that this one makes to another model: an ensemble's step, or a model's call.

        It ends with its request. No frontend has anything to tell it.
        """

    def context(self) -> str | None:
        """What models pass on to others that record, as JSON: `{"traceparent": …}`; None where nothing is passed on."""

    def refused(self) -> None:
        """The request that it was to follow was not accepted: nothing becomes of it."""

    def end(self) -> None:
        """The frontend has nothing more to tell. Called once, in any case."""


@dataclass(slots=True)
class InferenceRequest:
    """
    One request. Belongs to the frontend until `InferenceServer.submit`, then to the scheduler, then to its batch.

    Inputs are keyed by name, in the order the client sent them. `outputs` empty means all of the model's outputs.
    """

    wants_nothing: ClassVar[bool] = False
    """Whether it only fills a place in a batch: the null requests of sequence batchers."""

    model_name: str
    inputs: dict[str, Tensor]
    sink: ResponseSink
    model_version: int = ANY_VERSION
    id: str = ""
    outputs: list[RequestedOutput] = field(default_factory=list)
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    sequence: SequenceId | None = None
    priority: int = 0
    timeout_us: int = 0
    cancelled: bool = False
    """Set by `InferenceServer.cancel`; schedulers drop flagged requests, running models may look at it."""
    batch_size: int = 1
    """Rows of this request; set by the engine's validation (1 when the model does not batch)."""
    arrival_ns: int = 0
    """Monotonic clock when the engine accepted the request."""
    queued_ns: int = 0
    """Monotonic clock when the scheduler queued it."""
    flow: ResponseFlow | None = None
    """What a decoupled model waits for before each response but the first; None lets it send freely."""
    callers: tuple[str, ...] = ()
    """The models that wait for this request's answer, outermost first: those that called it while they ran."""
    executed: Callable[[ExecutionTimes], None] | None = None
    """Is told of the execution that answers the request, before its sink: an ensemble sums up those of its steps."""
    trace: Trace | None = None
    """Who records what becomes of the request; None for all but a few."""
    deadline_ns: int = 0
    """Monotonic clock when the queue gives it up or puts it back; 0 for never. The scheduler's own."""

    @property
    def error_prefix(self) -> str:
        """What Triton puts before the texts of validation errors."""
        return f"[request id: {self.id or '<id_unknown>'}] "
