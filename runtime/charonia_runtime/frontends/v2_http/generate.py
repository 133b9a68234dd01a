"""The generate extension: a flat JSON request, and its responses as one document or as server-sent events."""

import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, Trace
from charonia_runtime.core.streams import log_cut_stream
from charonia_runtime.frontends.v2_http.answers import EVENTS, JSON, error_answer
from charonia_runtime.frontends.v2_http.endpoint_load import FORMAT_FIELD, load_field
from charonia_runtime.frontends.v2_http.logged_connection import AnsweringConnection
from charonia_runtime.frontends.v2_http.services import Services
from charonia_runtime.frontends.v2_http.traces import begin_trace
from charonia_runtime.protocols.generate import decode_generate, encode_generate, generates_slowly
from charonia_runtime.protocols.json_limits import reads_slowly
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_documents import render_error
from charonia_runtime.thread_pools import CODING, PooledCall
from charonia_runtime.wires.http1.messages import Request

logger = logging.getLogger(__name__)

_NOT_ONE_RESPONSE: Final = (
    "generate expects model to produce exactly 1 response, use generate stream for model that generates various "
    "number of responses"
)


class GenerateExchange:
    """
    Answers one `/generate` request, or with `streams` a `/generate_stream` one; the sink of its responses.

    The first response decides the status: 400 for an error of any kind, since later ones can only be told in the body.
    """

    __slots__ = (
        "_connection", "_count", "_first", "_held", "_held_bytes", "_inference", "_model", "_producers", "_request",
        "_services", "_streams", "_trace", "_writing",
        "failure", "request_id",
    )  # fmt: skip

    def __init__(
        self, services: Services, connection: AnsweringConnection, request: Request, model: str, *, streams: bool
    ) -> None:
        self._services = services
        self._connection = connection
        self._request = request
        self._model = model
        self._streams = streams
        self.request_id = ""
        self.failure = ""
        self._inference: InferenceRequest | None = None
        self._first = b""
        self._count = 0
        self._trace: Trace | None = None
        self._writing: PooledCall[bytes] | None = None
        """Encodes a large response in a thread."""
        self._held: deque[InferenceResponse] = deque()
        """Responses behind that one."""
        self._held_bytes = 0
        self._producers: list[Callable[[], None]] = []
        """Models that wait until these are written."""

    def begin(self, version_text: str) -> None:
        """Check, decode and submit the request. Never raises: faults are answered."""
        try:
            self._submit(parse_version(version_text))
        except InferenceError as error:
            self._refuse(error)
        except Exception:
            logger.exception("unexpected error while reading a generate request for model '%s'", self._model)
            self._refuse(InternalError("unexpected error while reading the request"))

    def send(self, response: InferenceResponse) -> None:
        """Take a response: an event of the stream, or the one document."""
        if self._connection.exchange is not self:
            return
        if response.refused and response.error is not None:
            self._inference = None
            self._refuse(response.error)
            return
        if self._streams and self._connection.unsent_bytes + self._held_bytes > self._services.stream_bytes:
            self._cut_off()
            return
        if self._writing is None:
            self._deliver(response)
        else:
            self._held.append(response)
            self._held_bytes += _size_of(response)

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` when what was sent is encoded and the client keeps up (`core.request.ResponseFlow`)."""
        if self._writing is None:
            self._connection.when_ready(resume)
        else:
            self._producers.append(resume)

    def _deliver(self, response: InferenceResponse) -> None:
        """Write a response, in a thread where that may take long."""
        if not response.flag_only and (self._streams or not self._count) and generates_slowly(response):
            self._writing = CODING.start(
                partial(self._encode, response), partial(self._encoded, response), self._fail_to_write,
                size=_size_of(response),
            )  # fmt: skip
            return
        if not response.flag_only:
            self._take(response)
        if response.final:
            self._finish()

    def _encoded(self, response: InferenceResponse, text: bytes) -> None:
        """Go on with a response that was encoded in a thread, and those behind it."""
        self._writing = None
        if self._connection.exchange is not self:
            return
        self._put(response, text)
        if response.final:
            self._finish()
        while self._held and self._writing is None:
            held = self._held.popleft()
            self._held_bytes -= _size_of(held)
            self._deliver(held)
        if self._writing is None:
            self._resume_producers()

    def _fail_to_write(self, error: Exception) -> None:
        """Never called: encoding makes texts of its errors."""
        logger.error("unexpected error while encoding a response of model '%s'", self._model, exc_info=error)
        self._connection.abort()

    def _resume_producers(self) -> None:
        producers, self._producers = self._producers, []
        for resume in producers:
            self._connection.when_ready(resume)

    def _cut_off(self) -> None:
        """Give up a client that is too far behind; what the model sends until it is told is dropped."""
        log_cut_stream(logger, "HTTP", self._model, self._services.stream_bytes)
        self._connection.exchange = None
        self._connection.abort()
        self.disconnected()

    def disconnected(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        self._held.clear()
        self._resume_producers()
        if self._inference is not None:
            self._services.server.cancel(self._inference)
        self._end_trace()

    def _submit(self, version: int) -> None:
        services = self._services
        config = services.server.find_model(self._model, version).config
        self._trace = begin_trace(services.server.tracing, self._model, self._request)
        if self._request.head.fields.get(b"content-encoding", b"identity") not in {b"", b"identity"}:
            raise InvalidArgumentError("Unsupported content-encoding, only 'identity' is supported.")
        read = partial(
            decode_generate, config=config, model_version=version, sink=self, maximum_bytes=services.limits.body_bytes
        )
        text = bytes(self._request.body)
        if reads_slowly(text):
            CODING.start(partial(read, text), self._submit_read, self._fail_to_read, size=len(text))
        else:
            self._submit_inference(read(text))

    def _submit_read(self, inference: InferenceRequest) -> None:
        """Go on with a request that was read in a thread."""
        if self._connection.exchange is not self:
            return
        try:
            self._submit_inference(inference)
        except Exception as error:  # noqa: BLE001 the outermost boundary of a callback
            self._fail_to_read(error)

    def _fail_to_read(self, error: Exception) -> None:
        if isinstance(error, InferenceError):
            self._refuse(error)
            return
        logger.error("unexpected error while reading a generate request for model '%s'", self._model, exc_info=error)
        self._refuse(InternalError("unexpected error while reading the request"))

    def _submit_inference(self, inference: InferenceRequest) -> None:
        services = self._services
        if services.header_filter:
            services.header_filter.forward(self._request.head.header_texts(), inference.parameters)
        inference.flow = self
        self._inference = inference
        self.request_id = inference.id
        if self._trace is not None:
            self._trace.note("HTTP_RECV_END", time.monotonic_ns())
            inference.trace = self._trace
        try:
            services.server.submit(inference)
        except InferenceError:
            self._inference = None
            raise

    def _take(self, response: InferenceResponse) -> None:
        if self._streams or not self._count:
            self._put(response, self._encode(response))
        else:
            self._count += 1

    def _put(self, response: InferenceResponse, text: bytes) -> None:
        self._count += 1
        if self._count == 1:
            self._begin_answer(400 if response.error is not None else 200)
            self._first = text
        if self._streams:
            self._connection.send_chunk(b"data: %b\n\n" % text)

    def _finish(self) -> None:
        if not self._count:
            self._begin_answer(200)
        if not self._streams:
            self._connection.send_chunk(self._first if self._count == 1 else self._fail(_NOT_ONE_RESPONSE))
        self._connection.end_stream()
        if self._trace is not None:
            self._trace.note("HTTP_SEND_END", time.monotonic_ns())
        self._end_trace()

    def _begin_answer(self, status: int) -> None:
        if self._trace is not None:
            self._trace.note("HTTP_SEND_START", time.monotonic_ns())
        fields = EVENTS if self._streams else JSON
        load_format = self._request.head.fields.get(FORMAT_FIELD)
        if load_format:
            fields += load_field(load_format, self._services.server.custom_metrics)
        self._connection.begin_stream(status, fields)

    def _end_trace(self) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            trace.end()

    def _encode(self, response: InferenceResponse) -> bytes:
        if response.error is not None:
            return self._fail(response.error.message)
        try:
            return encode_generate(response, lambda: self._connection.exchange is self)
        except InferenceError as error:
            return self._fail(error.message)
        except Exception:
            logger.exception("unexpected error while encoding a response of model '%s'", self._model)
            return self._fail("unexpected error while encoding the response")

    def _fail(self, message: str) -> bytes:
        """Return the response that tells of an error, whatever the answer's status says."""
        self.failure = message
        return render_error(message)

    def _refuse(self, error: InferenceError) -> None:
        if self._connection.exchange is self:
            if self._trace is not None:
                self._trace.note("HTTP_SEND_START", time.monotonic_ns())
            status, body = error_answer(error)
            self._connection.answer(status, JSON, [body])
            if self._trace is not None:
                self._trace.note("HTTP_SEND_END", time.monotonic_ns())
        self._end_trace()


def _size_of(response: InferenceResponse) -> int:
    """The bytes of its tensors."""
    return sum([tensor.byte_size for tensor in response.outputs])
