"""One inference: a request's body to the engine, the engine's one response to the connection, without a task."""

import logging
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError, UnsupportedError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, Trace
from charonia_runtime.frontends.v2_http.answers import JSON, TEXT, error_answer
from charonia_runtime.frontends.v2_http.compression import (
    ENCODINGS,
    choose_encoding,
    compress,
    content_of,
    decompression,
)
from charonia_runtime.frontends.v2_http.logged_connection import AnsweringConnection
from charonia_runtime.frontends.v2_http.services import Services
from charonia_runtime.frontends.v2_http.traces import begin_trace
from charonia_runtime.protocols.json_limits import reads_slowly
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_json import decode_raw_request, encode_response, make_request, writes_slowly
from charonia_runtime.protocols.v2_json.header import Header, OutputForm
from charonia_runtime.replies import SingleResponse
from charonia_runtime.thread_pools import CODING
from charonia_runtime.wires.http1.answer_writer import Buffer
from charonia_runtime.wires.http1.messages import Request
from charonia_runtime.wires.short_texts import remembering_short

logger = logging.getLogger(__name__)

_OCTETS: Final = b"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %d\r\n"
_ACCEPTED_ENCODINGS: Final = b"Accept-Encoding: gzip, deflate\r\n"
_LEADING_INTEGER: Final = re.compile(rb"[ \t]*([+-]?[0-9]+)")
_MAXIMUM_INT32: Final = 2**31 - 1
_INLINE_INFLATION_BYTES: Final = 1024
"""Up to this size a body is decompressed on the event loop: it cannot become more than a megabyte."""
_INLINE_DEFLATION_BYTES: Final = 32 * 1024


class InferExchange(SingleResponse):
    """
    Answers one `/infer` request; the sink of its response.

    Refusals before the JSON is read are text/plain, then application/json, those of the execution text/plain again.
    """

    failure = ""
    """Errors have statuses of their own."""
    __slots__ = (
        "_connection", "_form", "_inference", "_leave", "_model", "_request", "_services", "_trace",
        "request_id",
    )  # fmt: skip

    def __init__(self, services: Services, connection: AnsweringConnection, request: Request, model: str) -> None:
        super().__init__()
        self._services = services
        self._connection = connection
        self._request = request
        self._model = model
        self.request_id = ""
        self._form: OutputForm | None = None
        self._inference: InferenceRequest | None = None
        self._trace: Trace | None = None
        self._leave: Callable[[], None] | None = None
        """Ends what threads do for it, for when the client goes away."""

    def begin(self, version_text: str) -> None:
        """Check, decode and submit the request. Never raises: faults are answered."""
        try:
            version = parse_version(version_text)
            config = self._services.server.find_model(self._model, version).config
            _require_one_response(config)
            self._trace = begin_trace(self._services.server.tracing, self._model, self._request)
            encoding = self._request.head.fields.get(b"content-encoding")
            if encoding is None or encoding in {b"", b"identity"}:
                self._submit(config, version, self._request.body)
            else:
                self._inflate(encoding.decode("latin-1"), partial(self._submit, config, version))
        except InferenceError as error:
            self._refuse(error, TEXT)
        except Exception:
            logger.exception("unexpected error while reading an inference request for model '%s'", self._model)
            self._refuse(InternalError("unexpected error while reading the request"), TEXT)

    def send(self, response: InferenceResponse) -> None:
        """Take a response; answer when it is the last."""
        if not self.keep(response):
            return
        # The request knows its sink: a cycle would keep its tensors until the garbage collector's next, long, round.
        self._inference = None
        if self._connection.exchange is not self:
            return
        try:
            self._answer()
        except Exception as error:  # noqa: BLE001 a sink must not raise into the engine
            self._fail_to_write(error)

    def disconnected(self) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None
        if self._inference is not None:
            self._services.server.cancel(self._inference)
        self._end_trace()

    # --- in ---

    def _inflate(self, encoding: str, submit: Callable[[memoryview], None]) -> None:
        """Decompress the body and go on, in a thread where it may take long."""
        if encoding not in ENCODINGS:
            self._refuse(UnsupportedError("Unsupported compression type"), TEXT + _ACCEPTED_ENCODINGS)
            return
        body, limit = self._request.body, self._services.limits.body_bytes
        if not body.nbytes:
            raise InvalidArgumentError("nothing to be decompressed")
        inflation = decompression(body, limit)
        if body.nbytes <= _INLINE_INFLATION_BYTES:
            inflation.run()
            submit(content_of(inflation, limit))
            return
        self._leave = inflation.cancel
        inflation.start(partial(self._go_on, lambda _: submit(content_of(inflation, limit))), self._fail)

    def _submit(self, config: ModelConfig, version: int, body: memoryview) -> None:
        length = self._json_length(body.nbytes)
        try:
            services = self._services
            if not length:
                inference, form = decode_raw_request(body, config, version, self, services.limits.body_bytes)
            else:
                text, binary = bytes(body[:length]), body[length:]
                if reads_slowly(text):
                    read = partial(services.decoder.read, text, binary.nbytes, self._model)
                    go_on = partial(self._submit_read, version, binary)
                    self._leave = CODING.start(read, go_on, self._fail_to_read, size=len(text)).cancel
                    return
                inference, form = services.decoder.decode(text, binary, self._model, version, self)
            self._submit_inference(inference, form)
        except InferenceError as error:
            self._inference = None
            self._refuse(error, JSON)

    def _submit_read(self, version: int, binary: memoryview, header: Header) -> None:
        """Go on with a header that was read in a thread."""
        if self._connection.exchange is not self:
            return
        try:
            self._submit_inference(*make_request(header, binary, self._model, version, self))
        except Exception as error:  # noqa: BLE001 the outermost boundary of a callback
            self._fail_to_read(error)

    def _fail_to_read(self, error: Exception) -> None:
        self._inference = None
        if isinstance(error, InferenceError):
            self._refuse(error, JSON)
            return
        logger.error("unexpected error while reading a request for model '%s'", self._model, exc_info=error)
        self._refuse(InternalError("unexpected error while reading the request"), TEXT)

    def _submit_inference(self, inference: InferenceRequest, form: OutputForm) -> None:
        """Hand the request to the server. Raises InferenceError."""
        services = self._services
        self._form = form
        if services.header_filter:
            services.header_filter.forward(self._request.head.header_texts(), inference.parameters)
        self._inference = inference
        self.request_id = inference.id
        if self._trace is not None:
            self._trace.note("HTTP_RECV_END", time.monotonic_ns())
            inference.trace = self._trace
        services.server.submit(inference)

    def _json_length(self, body_bytes: int) -> int:
        """How much of the body is JSON: all, unless a header says otherwise; 0 for a raw request."""
        text = self._request.head.fields.get(b"inference-header-content-length")
        if text is None:
            return body_bytes
        length = _written_length(text)
        if length is None:
            if self._services.newest_rules:
                raise InvalidArgumentError(
                    f"Unable to parse Inference-Header-Content-Length, got: {text.decode('utf-8', 'surrogateescape')}"
                )
            length = 0
        if not 0 <= length <= body_bytes:
            raise InvalidArgumentError(
                f"inference header size should be in range (0, {body_bytes}), "
                f"got: {text.decode('utf-8', 'surrogateescape')}"
            )
        return length

    # --- out ---

    def _answer(self) -> None:
        response = self.take()
        if response.error is not None:
            self._refuse(response.error, JSON if response.refused else TEXT)
            return
        form = self._form or OutputForm()
        if not writes_slowly(response, form):
            self._send_encoded(encode_response(response, form))
            return
        encode = partial(encode_response, response, form, lambda: self._connection.exchange is self)
        size = sum([tensor.byte_size for tensor in response.outputs])
        self._leave = CODING.start(
            encode, partial(self._go_on, self._send_encoded), self._fail_to_write, size=size
        ).cancel

    def _send_encoded(self, encoded: tuple[bytes, list[memoryview]]) -> None:
        text, buffers = encoded
        fields = _OCTETS % len(text) if buffers else JSON
        parts: Sequence[Buffer] = [text, *buffers]
        accepted = self._request.head.fields.get(b"accept-encoding")
        encoding = choose_encoding(accepted.decode("latin-1")) if accepted else ""
        if not encoding:
            self._reply(200, fields, parts)
            return
        fields += b"Content-Encoding: %b\r\n" % encoding.encode()
        if sum(map(len, parts)) <= _INLINE_DEFLATION_BYTES:
            self._reply(200, fields, [compress(parts, encoding)])
        else:
            answer = partial(self._go_on, lambda content: self._reply(200, fields, [content]))
            size = sum(map(len, parts))
            self._leave = CODING.start(partial(compress, parts, encoding), answer, self._fail, size=size).cancel

    def _fail_to_write(self, error: Exception) -> None:
        self._leave = None
        if isinstance(error, InferenceError):
            self._refuse(error, TEXT)
            return
        logger.error("unexpected error while encoding a response of model '%s'", self._model, exc_info=error)
        self._refuse(InternalError("unexpected error while encoding the response"), TEXT)

    def _refuse(self, error: InferenceError, fields: bytes) -> None:
        if self._connection.exchange is self:
            status, body = error_answer(error)
            self._reply(status, fields, [body])

    def _reply(self, status: int, fields: bytes, parts: Sequence[Buffer]) -> None:
        trace = self._trace
        if trace is None:
            self._connection.answer(status, fields, parts)
            return
        trace.note("HTTP_SEND_START", time.monotonic_ns())
        self._connection.answer(status, fields, parts)
        trace.note("HTTP_SEND_END", time.monotonic_ns())
        self._end_trace()

    # --- traces ---

    def _end_trace(self) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            trace.end()

    # --- what happens in threads ---

    def _go_on(self, go_on: Callable[[Any], None], result: object = None) -> None:
        """Go on with what a thread has made, unless the client is gone."""
        self._leave = None
        if self._connection.exchange is not self:
            return
        try:
            go_on(result)
        except Exception as error:  # noqa: BLE001 the thread's outermost boundary
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._leave = None
        if isinstance(error, InferenceError):
            self._refuse(error, TEXT)
            return
        logger.error("unexpected error while (de)compressing for model '%s'", self._model, exc_info=error)
        self._refuse(InternalError("unexpected error while compressing"), TEXT)


def _require_one_response(config: ModelConfig) -> None:
    if config.decoupled:
        raise UnsupportedError("HTTP end point doesn't support models with decoupled transaction policy")


@remembering_short
def _written_length(text: bytes) -> int | None:
    """
    Return the number that a header begins with, as C reads it; None where it begins with none.

    Raises InvalidArgumentError for a number beyond 32 bits.
    """
    match = _LEADING_INTEGER.match(text)
    if match is None:
        return None
    length = int(match[1]) if len(match[1]) <= len("-2147483648") else 0
    if len(match[1].lstrip(b"+-0")) > len("2147483648") or not (-_MAXIMUM_INT32 - 1 <= length <= _MAXIMUM_INT32):
        raise InvalidArgumentError(
            "Unable to parse Inference-Header-Content-Length, value is out of range [ -2147483648, 2147483647 ], "
            f"got: {text.decode('utf-8', 'surrogateescape')}"
        )
    return length
