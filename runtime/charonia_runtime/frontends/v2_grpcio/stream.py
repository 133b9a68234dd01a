"""
One ModelStreamInfer call.

Answers of models that are not decoupled leave in the order of their requests, and so do refusals; answers of decoupled
models leave as they come. One task reads, the call's own task writes, sinks put answers in between.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

import grpc.aio

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, Trace
from charonia_runtime.frontends.v2_grpcio import metadata
from charonia_runtime.frontends.v2_grpcio.in_flight import InFlight
from charonia_runtime.frontends.v2_grpcio.requests import RequestBuilder, begin_trace
from charonia_runtime.frontends.v2_grpcio.status import Context, shutting_down, unexpected
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_proto.answers import (
    encode_stream_end,
    encode_stream_error,
    encode_stream_rejection,
    encode_stream_response,
)
from charonia_runtime.protocols.v2_proto.infer import InferMessage

logger = logging.getLogger(__name__)

_HIGH_WATER_BYTES = 64 << 20
_LOW_WATER_BYTES = 32 << 20
"""From more than the one waiting to be written, down to the other, no request is read and no model may send more."""


class InferStream:
    """The state of one call: answers owed, answers waiting to be written, whether the client has more to ask."""

    def __init__(self, builder: RequestBuilder, in_flight: InFlight, context: Context, pool_size: int) -> None:
        self._builder = builder
        self._in_flight = in_flight
        self._context = context
        self._pool_size = pool_size
        self.errors_end_call = metadata.find(context, "triton_grpc_error") == "true"
        """Whether the first error of an execution ends the call with its status."""
        self.closed = False
        self._open: set[StreamAnswer] = set()
        self._turns: deque[StreamAnswer] = deque()
        self._ready: deque[tuple[StreamAnswer, bytes]] = deque()
        self._held_back: dict[StreamAnswer, list[Callable[[], None]]] = {}
        self._waiting_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._wake = asyncio.Event()
        self._half_closed = False
        self._failure: InferenceError | None = None

    async def serve(self) -> None:
        """Answer until the client is done. Raises the InferenceError that ends the call, if one does."""
        reader = asyncio.create_task(self._read())
        try:
            await self._write()
        except grpc.aio.InternalError:
            logger.debug("a stream's client went away while it was written to")
        finally:
            self.closed = True
            reader.cancel()
            for answer in list(self._open):
                if answer.request is not None and not answer.done:
                    self._builder.server.cancel(answer.request)
                self._close(answer)
            self._release_all()

    def end(self, error: InferenceError) -> None:
        """End the call with an error once what is ready is written."""
        if self._failure is None:
            self._failure = error
            self._wake.set()

    # --- what answers ask of their stream ---

    def put(self, answer: "StreamAnswer", data: bytes) -> None:
        """Queue a message of `answer`, to be written when its turn comes."""
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _HIGH_WATER_BYTES:
            self._room.clear()
        answer.waiting += 1
        if answer.decoupled:
            self._ready.append((answer, data))
            self._wake.set()
        else:
            answer.held.append(data)
            self._advance()

    def finish(self, answer: "StreamAnswer") -> None:
        """`answer` has its last message."""
        answer.done = True
        if answer.decoupled:
            self._close(answer)
        else:
            self._advance()
        self._wake.set()

    def when_ready(self, answer: "StreamAnswer", resume: Callable[[], None]) -> None:
        """Call `resume` when `answer` may have another message."""
        few = not self._pool_size or answer.waiting < self._pool_size
        if self.closed or (few and self._room.is_set()):
            resume()
        else:
            self._held_back.setdefault(answer, []).append(resume)

    # --- reading ---

    async def _read(self) -> None:
        try:
            while (data := await self._context.read()) is not grpc.aio.EOF:
                await self._accept(data)
                await self._room.wait()
        except grpc.aio.InternalError:
            logger.debug("a stream's client went away while it was read from")
        except Exception as error:  # noqa: BLE001 the task's outermost boundary
            self.end(unexpected(error))
        finally:
            self._half_closed = True
            self._wake.set()

    async def _accept(self, data: bytes) -> None:
        answer = StreamAnswer(self)
        self._open.add(answer)
        self._in_flight.begin()
        try:
            await self._submit(data, answer)
        except InferenceError as error:
            self._queue(answer)
            self.put(answer, encode_stream_rejection(error.message, answer.id))
            self.finish(answer)

    async def _submit(self, data: bytes, answer: "StreamAnswer") -> None:
        message = InferMessage(data)
        answer.id, answer.model_name, answer.version_text = message.id, message.model_name, message.version_text
        if self._in_flight.stopping:
            raise shutting_down()
        version = parse_version(message.version_text)
        server = self._builder.server
        answer.decoupled = server.find_model(message.model_name, version).config.decoupled
        if server.tracing.active:
            answer.trace = begin_trace(server, message.model_name, self._context)
        request = await self._builder.build(message, version, answer, self._context, answer.trace)
        answer.wants_empty_final = message.wants_empty_final
        request.flow = answer
        answer.request = request
        self._queue(answer)
        server.submit(request)

    def _queue(self, answer: "StreamAnswer") -> None:
        if not answer.decoupled and not answer.queued:
            answer.queued = True
            self._turns.append(answer)

    # --- writing ---

    async def _write(self) -> None:
        write = self._context.write
        while True:
            while self._ready:
                answer, data = self._ready.popleft()
                await write(data)
                self._written(answer, len(data))
            if self._failure is not None:
                raise self._failure
            if self._half_closed and not self._open:
                return
            self._wake.clear()
            await self._wake.wait()

    def _advance(self) -> None:
        """Make ready what the order of requests allows."""
        turns = self._turns
        while turns:
            first = turns[0]
            self._ready.extend((first, data) for data in first.held)
            first.held.clear()
            if not first.done:
                break
            turns.popleft()
            self._close(first)
        self._wake.set()

    def _close(self, answer: "StreamAnswer") -> None:
        if answer in self._open:
            self._open.remove(answer)
            self._in_flight.end()
            if answer.trace is not None:
                answer.trace.end()

    def _written(self, answer: "StreamAnswer", size: int) -> None:
        self._waiting_bytes -= size
        answer.waiting -= 1
        if self._room.is_set():
            self._release(answer)
        elif self._waiting_bytes <= _LOW_WATER_BYTES:
            self._room.set()
            self._release_all()

    def _release(self, answer: "StreamAnswer") -> None:
        """Let the model of `answer` go on, if it was held back and need not be any more."""
        for resume in self._held_back.pop(answer, ()):
            self.when_ready(answer, resume)

    def _release_all(self) -> None:
        for answer in list(self._held_back):
            self._release(answer)


class StreamAnswer:
    """The sink and the flow of one request of a stream."""

    __slots__ = (
        "decoupled", "done", "held", "id", "model_name", "queued", "request", "stream", "trace", "version_text",
        "waiting", "wants_empty_final",
    )  # fmt: skip

    def __init__(self, stream: InferStream) -> None:
        self.stream = stream
        self.id = ""
        self.model_name = ""
        self.version_text = ""
        """The three as the client wrote them: errors repeat them."""
        self.request: InferenceRequest | None = None
        self.trace: Trace | None = None
        self.wants_empty_final = False
        self.decoupled = False
        self.queued = False
        self.done = False
        self.held: list[bytes] = []
        """Messages that wait for the answers of earlier requests."""
        self.waiting = 0
        """Messages not written yet."""

    def send(self, response: InferenceResponse) -> None:
        stream = self.stream
        if stream.closed or self.done:
            return
        if response.error is not None and stream.errors_end_call:
            stream.end(response.error)
            return
        if not response.flag_only or self.wants_empty_final:
            message = self._encode(response)
            if self.trace is not None:
                self.trace.note("GRPC_SEND_START", time.monotonic_ns())
                self.trace.note("GRPC_SEND_END", time.monotonic_ns())
            stream.put(self, message)
        if response.final:
            stream.finish(self)

    def when_ready(self, resume: Callable[[], None]) -> None:
        self.stream.when_ready(self, resume)

    def _encode(self, response: InferenceResponse) -> bytes:
        error = response.error
        if error is None:
            if response.flag_only:
                return encode_stream_end(self.id, self.model_name, self.version_text)
            try:
                return encode_stream_response(response)
            except InferenceError as too_large:
                error = too_large
            except Exception as defect:  # noqa: BLE001 a sink must not raise into the engine
                error = unexpected(defect)
        return encode_stream_error(error.message, self.id, self.model_name, self.version_text, final=response.final)
