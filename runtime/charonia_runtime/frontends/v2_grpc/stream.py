"""
One ModelStreamInfer call.

Answers of models that are not decoupled leave in the order of their requests, and so do refusals; answers of decoupled
models leave as they come. Sinks hand answers in, and what may leave goes to the call at once.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.streams import log_cut_stream
from charonia_runtime.frontends.v2_grpc.calls import Buffer, Call, Parts
from charonia_runtime.frontends.v2_grpc.in_flight import InFlight
from charonia_runtime.frontends.v2_grpc.logged_answer import LoggedAnswer
from charonia_runtime.frontends.v2_grpc.logged_call import TOO_SLOW, tell_refusal
from charonia_runtime.frontends.v2_grpc.requests import RequestBuilder, begin_trace, build_beside_the_loop
from charonia_runtime.frontends.v2_grpc.status import OK, Status, StatusCode, shutting_down, status_of, unexpected
from charonia_runtime.frontends.v2_grpc.stream_answer import StreamAnswer
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_proto.answers import encode_stream_rejection
from charonia_runtime.protocols.v2_proto.decoder import Message, SlowMessage
from charonia_runtime.request_log import RequestLog
from charonia_runtime.thread_pools import CODING

logger = logging.getLogger(__name__)

_HIGH_WATER_BYTES = 64 << 20
_LOW_WATER_BYTES = 32 << 20
"""From more than the one waiting to be written, down to the other, no request is read."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How far the client of a stream may be behind."""

    responses: int
    """Responses of one request that may wait before its model is held back; 0 for any number."""
    unsent_bytes: int
    """What may wait when a decoupled model sends more: above it the call is dropped."""

    @property
    def held_back_bytes(self) -> int:
        """From more than this on, models that can be held back are."""
        return min(_HIGH_WATER_BYTES, self.unsent_bytes // 4)


class InferStream:
    """The state of one call: answers owed, answers waiting to be written, whether the client has more to ask."""

    def __init__(
        self,
        builder: RequestBuilder,
        in_flight: InFlight,
        call: Call,
        limits: StreamLimits,
        closed: Callable[["InferStream"], None],
        *,
        request_log: RequestLog,
    ) -> None:
        """`closed` is told when nothing more happens."""
        self._builder = builder
        self._in_flight = in_flight
        self._call = call
        self._limits = limits
        self._held_back_bytes = limits.held_back_bytes
        self._tell_closed = closed
        self._request_log = request_log
        self.errors_end_call = call.metadata.find("triton_grpc_error") == "true"
        """Whether the first error of an execution ends the call with its status."""
        self.closed = False
        self._open: set[StreamAnswer] = set()
        self._turns: deque[StreamAnswer] = deque()
        self._leaving: list[tuple[StreamAnswer, int]] = []
        """What was given to the call since it was last asked to say when that has left."""
        self._asked = False
        """Whether the call was asked."""
        self._held_back: dict[StreamAnswer, list[Callable[[], None]]] = {}
        self._waiting_bytes = 0
        self._has_room = True
        self._lets_models_send = True
        self._decoding = False
        self._holds = False
        """Whether the call holds the client's messages."""
        self._half_closed = False

    def end(self, error: InferenceError) -> None:
        """End the call with an error behind what was sent."""
        self._finish(status_of(error))

    # --- what answers ask of their stream ---

    def put(self, answer: StreamAnswer, parts: Parts) -> None:
        """Send a message of `answer` when its turn comes, or give up a client that is too far behind."""
        size = sum(map(len, parts))
        if answer.logged is not None:
            answer.logged.sent_bytes += size
        if answer.decoupled and self._waiting_bytes > self._limits.unsent_bytes:
            log_cut_stream(logger, "gRPC", answer.model_name, self._limits.unsent_bytes)
            self._call.drop()
            self._finish(None, TOO_SLOW)
            return
        self._waiting_bytes += size
        if self._waiting_bytes > _HIGH_WATER_BYTES:
            self._has_room = False
            self._hold_or_release()
        if self._waiting_bytes > self._held_back_bytes:
            self._lets_models_send = False
        answer.waiting += 1
        if answer.decoupled:
            self._send(answer, parts, size)
        else:
            answer.held.append((parts, size))
            self._advance()

    def finish(self, answer: StreamAnswer) -> None:
        """`answer` has its last message."""
        answer.done = True
        if answer.decoupled:
            self._close(answer)
        else:
            self._advance()
        self._finish_if_done()

    def when_ready(self, answer: StreamAnswer, resume: Callable[[], None]) -> None:
        """Call `resume` when `answer` may have another message."""
        few = not self._limits.responses or answer.waiting < self._limits.responses
        if self.closed or (few and self._lets_models_send):
            resume()
        else:
            self._held_back.setdefault(answer, []).append(resume)

    # --- reading ---

    def message(self, data: Buffer) -> None:
        if self.closed:
            return
        answer = StreamAnswer(self)
        if self._request_log.active:
            answer.logged = LoggedAnswer(self._request_log, self._call.client, len(data))
        self._open.add(answer)
        self._in_flight.begin()
        try:
            self._accept(data, answer)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._reject(answer, error)

    def half_closed(self) -> None:
        self._half_closed = True
        self._finish_if_done()

    def aborted(self, status: Status) -> None:
        if not self._open and status.code is not StatusCode.CANCELLED:
            tell_refusal(self._request_log, "ModelStreamInfer", status, self._call.client)
        self._finish(None, status)

    def _accept(self, data: Buffer, answer: StreamAnswer) -> None:
        message = self._builder.read(data)
        if isinstance(message, SlowMessage):
            self._decoding = True
            self._hold_or_release()
            CODING.start(message.read, partial(self._read, answer), partial(self._undecoded, answer), size=len(data))
        else:
            self._take(answer, message)

    def _read(self, answer: StreamAnswer, message: Message) -> None:
        """Go on with a message that was read in a thread."""
        if self.closed:
            return
        self._decoding = False
        try:
            self._take(answer, message)
        except Exception as error:  # noqa: BLE001 the outermost boundary of a callback
            self._reject(answer, error)
        self._hold_or_release()

    def _take(self, answer: StreamAnswer, message: Message) -> None:
        answer.id, answer.model_name, answer.version_text = message.id, message.model_name, message.version_text
        if self._in_flight.stopping:
            raise shutting_down()
        version = parse_version(message.version_text)
        server, metadata = self._builder.server, self._call.metadata
        answer.decoupled = server.find_model(message.model_name, version).config.decoupled
        if server.tracing.active:
            answer.trace = begin_trace(server, message.model_name, metadata)
        if message.is_slow:
            self._decoding = True
            self._hold_or_release()
            build = partial(self._builder.build, message, version, answer, metadata, answer.trace)
            decoded, undecoded = partial(self._decoded, answer, message), partial(self._undecoded, answer)
            build_beside_the_loop(build, decoded, undecoded, message.byte_size)
        else:
            self._submit(answer, message, self._builder.build(message, version, answer, metadata, answer.trace))

    def _decoded(self, answer: StreamAnswer, message: Message, request: InferenceRequest) -> None:
        if self.closed:
            return
        try:
            self._submit(answer, message, request)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._reject(answer, error)
        self._decoding = False
        self._hold_or_release()

    def _undecoded(self, answer: StreamAnswer, error: Exception) -> None:
        if self.closed:
            return
        self._reject(answer, error)
        self._decoding = False
        self._hold_or_release()

    def _submit(self, answer: StreamAnswer, message: Message, request: InferenceRequest) -> None:
        answer.wants_empty_final = message.wants_empty_final
        request.flow = answer
        answer.request = request
        self._queue(answer)
        self._builder.server.submit(request)

    def _reject(self, answer: StreamAnswer, error: Exception) -> None:
        """Answer a request that was refused before it was executed."""
        if not isinstance(error, InferenceError):
            self.end(unexpected(error))
            return
        answer.note_error(error)
        self._queue(answer)
        self.put(answer, [encode_stream_rejection(error.message, answer.id)])
        self.finish(answer)

    def _queue(self, answer: StreamAnswer) -> None:
        if not answer.decoupled and not answer.queued:
            answer.queued = True
            self._turns.append(answer)

    def _hold_or_release(self) -> None:
        """Let the client's messages come, or not."""
        holds = self._decoding or not self._has_room
        if holds is self._holds:
            return
        self._holds = holds
        if holds:
            self._call.hold()
        else:
            self._call.release()

    # --- writing ---

    def _advance(self) -> None:
        """Send what the order of requests allows."""
        turns = self._turns
        while turns:
            first = turns[0]
            held, first.held = first.held, []
            for parts, size in held:
                self._send(first, parts, size)
            if not first.done:
                break
            turns.popleft()
            self._close(first)

    def _send(self, answer: StreamAnswer, parts: Parts, size: int) -> None:
        if self.closed:
            return
        self._call.send(parts)
        self._leaving.append((answer, size))
        if not self._asked:
            self._ask()

    def _ask(self) -> None:
        self._asked = True
        leaving, self._leaving = self._leaving, []
        self._call.when_ready(partial(self._left, leaving))

    def _left(self, messages: list[tuple[StreamAnswer, int]]) -> None:
        self._asked = False
        for answer, size in messages:
            self._waiting_bytes -= size
            answer.waiting -= 1
            if self._lets_models_send and self._held_back:
                self._release(answer)
        if not self._has_room and self._waiting_bytes <= _LOW_WATER_BYTES:
            self._has_room = True
            self._hold_or_release()
        if not self._lets_models_send and self._waiting_bytes <= self._held_back_bytes // 2:
            self._lets_models_send = True
            self._release_all()
        if self._leaving and not self._asked:
            self._ask()

    def _release(self, answer: StreamAnswer) -> None:
        """Let the model of `answer` go on, if it was held back and need not be any more."""
        for resume in self._held_back.pop(answer, ()):
            self.when_ready(answer, resume)

    def _release_all(self) -> None:
        for answer in list(self._held_back):
            self._release(answer)

    # --- the end ---

    def _close(self, answer: StreamAnswer, status: Status = OK) -> None:
        """Forget an answer that is complete, or that the call ended before with `status`."""
        if answer in self._open:
            self._open.remove(answer)
            self._in_flight.end()
            if answer.trace is not None:
                answer.trace.end()
            if answer.logged is not None:
                answer.logged.end(answer.model_name, answer.id, status)

    def _finish_if_done(self) -> None:
        if self._half_closed and not self._open:
            self._finish(OK)

    def _finish(self, status: Status | None, reason: Status = OK) -> None:
        """Stop, cancel what runs, and tell the client its `status` unless it is gone, for this `reason`."""
        if self.closed:
            return
        self.closed = True
        if status is not None:
            self._call.end(status)
        for answer in list(self._open):
            request, answer.request = answer.request, None
            if request is not None and not answer.done:
                self._builder.server.cancel(request)
            self._close(answer, status or reason)
        self._turns.clear()
        self._leaving.clear()
        self._release_all()
        self._tell_closed(self)
