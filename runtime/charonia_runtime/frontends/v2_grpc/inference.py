"""The two inference calls: ModelInfer, one request and one answer, and ModelStreamInfer, the work of `InferStream`."""

import time
from functools import partial

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, Trace
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.calls import Buffer, Call, Listener
from charonia_runtime.frontends.v2_grpc.in_flight import InFlight
from charonia_runtime.frontends.v2_grpc.logged_call import LoggedCall, tell_refusal
from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.frontends.v2_grpc.requests import RequestBuilder, begin_trace, build_beside_the_loop
from charonia_runtime.frontends.v2_grpc.status import Status, shutting_down, status_of
from charonia_runtime.frontends.v2_grpc.stream import InferStream, StreamLimits
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_proto.answers import encode_response
from charonia_runtime.protocols.v2_proto.decoder import Message, SlowMessage
from charonia_runtime.replies import SingleResponse
from charonia_runtime.thread_pools import CODING


class InferenceCalls:
    """Answers inference calls and knows which are in flight."""

    def __init__(self, server: InferenceServer, options: Options) -> None:
        self.in_flight = InFlight()
        self.server = server
        self.builder = RequestBuilder(server, options.header_filter(), newest_rules=options.triton.newest_rules)
        self._request_log = options.request_log
        self._limits = StreamLimits(options.grpc_max_response_pool_size, options.stream_buffer_size)
        self._streams: set[InferStream] = set()

    def model_infer(self, call: Call) -> Listener | None:
        """One request. A client that cancels, or whose deadline passes, cancels the request."""
        if self._request_log.active:
            return LoggedCall(self._request_log, "ModelInfer", call).open(partial(InferExchange, self))
        return InferExchange(self, call)

    def model_stream_infer(self, call: Call) -> Listener | None:
        """A stream of requests, until the client closes its half and has every answer."""
        if self.in_flight.stopping:
            refusal = status_of(shutting_down())
            tell_refusal(self._request_log, "ModelStreamInfer", refusal, call.client)
            call.end(refusal)
            return None
        stream = InferStream(
            self.builder, self.in_flight, call, self._limits, self._streams.discard, request_log=self._request_log
        )
        self._streams.add(stream)
        return stream

    def end_streams(self) -> None:
        """Close the streams whose clients keep them open without a request in flight."""
        for stream in list(self._streams):
            stream.end(shutting_down())


class InferExchange(SingleResponse):
    """Answers one ModelInfer call; the sink of its response."""

    __slots__ = ("_call", "_calls", "_request", "_trace")

    def __init__(self, calls: InferenceCalls, call: Call) -> None:
        super().__init__()
        self._calls = calls
        self._call: Call | None = call
        """None once the call is answered or its client gone."""
        self._request: InferenceRequest | None = None
        self._trace: Trace | None = None

    # --- in ---

    def message(self, data: Buffer) -> None:
        calls, call = self._calls, self._call
        if call is None:
            return
        if calls.in_flight.stopping:
            self._call = None
            call.end(status_of(shutting_down()))
            return
        calls.in_flight.begin()
        try:
            message = calls.builder.read(data)
            if isinstance(message, SlowMessage):
                CODING.start(message.read, self._take, self._fail, size=len(data))
            else:
                self._take(message)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._fail(error)

    def _take(self, message: Message) -> None:
        """Go on with a message that was read. Never raises."""
        calls, call = self._calls, self._call
        if call is None:
            return
        try:
            name = message.model_name
            version = parse_version(message.version_text)
            server = calls.server
            _require_one_response(server.find_model(name, version).config)
            if server.tracing.active:
                self._trace = begin_trace(server, name, call.metadata)
            if message.is_slow:
                build = partial(calls.builder.build, message, version, self, call.metadata, self._trace)
                build_beside_the_loop(build, self._decoded, self._fail, message.byte_size)
                return
            self._request = calls.builder.build(message, version, self, call.metadata, self._trace)
            server.submit(self._request)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._fail(error)

    def half_closed(self) -> None:
        """Nothing: a unary call has had its message."""

    def aborted(self, _status: Status) -> None:
        request = self._request
        self._close()
        if request is not None:
            self._calls.server.cancel(request)

    def _decoded(self, request: InferenceRequest) -> None:
        if self._call is None:
            return
        try:
            self._request = request
            self._calls.server.submit(request)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._fail(error)

    # --- out ---

    def send(self, response: InferenceResponse) -> None:
        """Take a response; answer when it is the last."""
        if not self.keep(response):
            return
        # The request knows its sink: a cycle would keep its tensors until the garbage collector's next, long, round.
        self._request = None
        if self._call is None:
            return
        try:
            self._answer(self._call)
        except Exception as error:  # noqa: BLE001 a sink must not raise into the engine
            self._fail(error)

    def _answer(self, call: Call) -> None:
        response = self.take()
        if response.error is not None:
            self._fail(response.error)
            return
        parts = encode_response(response)
        trace = self._trace
        if trace is not None:
            trace.note("GRPC_SEND_START", time.monotonic_ns())
        call.respond(parts)
        if trace is not None:
            trace.note("GRPC_SEND_END", time.monotonic_ns())
        self._close()

    def _fail(self, error: Exception) -> None:
        call, trace = self._call, self._trace
        if trace is not None:
            now_ns = time.monotonic_ns()
            trace.note("GRPC_SEND_START", now_ns)
            trace.note("GRPC_SEND_END", now_ns)
        self._close()
        if call is not None:
            call.end(status_of(error))

    def _close(self) -> None:
        """Nothing more is to be told to the client."""
        if self._call is None:
            return
        self._call = self._request = None
        self._calls.in_flight.end()
        if self._trace is not None:
            self._trace.end()
            self._trace = None


def _require_one_response(config: ModelConfig) -> None:
    if config.decoupled:
        raise UnsupportedError("ModelInfer RPC doesn't support models with decoupled transaction policy")
