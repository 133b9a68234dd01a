"""One request of a ModelStreamInfer call: the sink of its responses, and what holds its model back."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, Trace
from charonia_runtime.frontends.v2_grpc.calls import Parts
from charonia_runtime.frontends.v2_grpc.status import OK, status_of, unexpected
from charonia_runtime.protocols.v2_proto.answers import (
    encode_stream_end,
    encode_stream_error,
    encode_stream_rejection,
    encode_stream_response,
)

if TYPE_CHECKING:
    from charonia_runtime.frontends.v2_grpc.logged_answer import LoggedAnswer


class AnsweringStream(Protocol):
    """What an answer asks of its stream."""

    closed: bool
    errors_end_call: bool

    def end(self, error: InferenceError) -> None: ...

    def put(self, answer: "StreamAnswer", parts: Parts) -> None: ...

    def finish(self, answer: "StreamAnswer") -> None: ...

    def when_ready(self, answer: "StreamAnswer", resume: Callable[[], None]) -> None: ...


class StreamAnswer:
    """The sink and the flow of one request of a stream."""

    __slots__ = (
        "answered", "decoupled", "done", "held", "id", "logged", "model_name", "queued", "request", "stream", "trace",
        "version_text", "waiting", "wants_empty_final",
    )  # fmt: skip

    def __init__(self, stream: AnsweringStream) -> None:
        self.stream = stream
        self.id = ""
        self.model_name = ""
        self.version_text = ""
        """The three as the client wrote them: errors repeat them."""
        self.request: InferenceRequest | None = None
        self.trace: Trace | None = None
        self.logged: LoggedAnswer | None = None
        """Counts for the line of this request; None for one that is not told."""
        self.wants_empty_final = False
        self.decoupled = False
        self.queued = False
        self.done = False
        self.answered = False
        """Whether the client has a response, which is all that it gets of a model that is not decoupled."""
        self.held: list[tuple[Parts, int]] = []
        """Messages that wait for the answers of earlier requests, with their sizes."""
        self.waiting = 0
        """Messages not written yet."""

    def send(self, response: InferenceResponse) -> None:
        stream = self.stream
        if stream.closed or self.done:
            return
        if response.final:
            # The request knows its sink: a cycle would keep its tensors until the garbage collector's next round.
            self.request = None
        if self.answered and not self.decoupled and not response.flag_only:
            # As Triton has it: a stream is not told that such a model sent more than it may.
            if response.final:
                stream.finish(self)
            return
        if response.error is not None and response.refused:
            self.note_error(response.error)
            stream.put(self, [encode_stream_rejection(response.error.message, self.id)])
            stream.finish(self)
            return
        if response.error is not None and stream.errors_end_call:
            stream.end(response.error)
            return
        if not response.flag_only or self.wants_empty_final:
            self.answered = True
            parts = self._encode(response)
            if self.trace is not None:
                self.trace.note("GRPC_SEND_START", time.monotonic_ns())
                self.trace.note("GRPC_SEND_END", time.monotonic_ns())
            stream.put(self, parts)
        if response.final:
            stream.finish(self)

    def note_error(self, error: Exception) -> None:
        """Let the line of this request tell of an error that a response carries."""
        if self.logged is not None and self.logged.status is OK:
            self.logged.status = status_of(error)

    def when_ready(self, resume: Callable[[], None]) -> None:
        self.stream.when_ready(self, resume)

    def _encode(self, response: InferenceResponse) -> Parts:
        error = response.error
        if error is None:
            if response.flag_only:
                return [encode_stream_end(self.id, self.model_name, self.version_text)]
            try:
                return encode_stream_response(response)
            except InferenceError as too_large:
                error = too_large
            except Exception as defect:  # noqa: BLE001 a sink must not raise into the engine
                error = unexpected(defect)
        self.note_error(error)
        return [encode_stream_error(error.message, self.id, self.model_name, self.version_text, final=response.final)]
