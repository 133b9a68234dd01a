"""The two inference calls: ModelInfer, one request and one answer, and ModelStreamInfer, the work of `InferStream`."""

import asyncio
import time

from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.core.request import InferenceResponse, Trace
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpcio.in_flight import InFlight
from charonia_runtime.frontends.v2_grpcio.options import Options
from charonia_runtime.frontends.v2_grpcio.requests import RequestBuilder, begin_trace
from charonia_runtime.frontends.v2_grpcio.status import Context, shutting_down
from charonia_runtime.frontends.v2_grpcio.stream import InferStream
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_proto.answers import encode_response
from charonia_runtime.protocols.v2_proto.infer import InferMessage
from charonia_runtime.replies import Reply


class InferenceCalls:
    """Answers inference calls and knows which are in flight."""

    def __init__(self, server: InferenceServer, options: Options) -> None:
        self.in_flight = InFlight()
        self._server = server
        self._builder = RequestBuilder(server, options.header_filter())
        self._pool_size = options.grpc_max_response_pool_size
        self._streams: set[InferStream] = set()

    async def model_infer(self, data: bytes, context: Context) -> bytes:
        """One request. A client that cancels, or whose deadline passes, cancels the request."""
        if self.in_flight.stopping:
            raise shutting_down()
        self.in_flight.begin()
        try:
            return encode_response(await self._answer(InferMessage(data), context))
        finally:
            self.in_flight.end()

    async def model_stream_infer(self, _requests: object, context: Context) -> None:
        """A stream of requests, until the client closes its half and has every answer."""
        if self.in_flight.stopping:
            raise shutting_down()
        stream = InferStream(self._builder, self.in_flight, context, self._pool_size)
        self._streams.add(stream)
        try:
            await stream.serve()
        finally:
            self._streams.discard(stream)

    async def _answer(self, message: InferMessage, context: Context) -> InferenceResponse:
        version = parse_version(message.version_text)
        server = self._server
        if server.find_model(message.model_name, version).config.decoupled:
            raise UnsupportedError("ModelInfer RPC doesn't support models with decoupled transaction policy")
        trace = begin_trace(server, message.model_name, context) if server.tracing.active else None
        if trace is None:
            return await self._infer(message, version, context, None)
        try:
            return await self._infer(message, version, context, trace)
        finally:
            trace.note("GRPC_SEND_START", time.monotonic_ns())
            trace.note("GRPC_SEND_END", time.monotonic_ns())
            trace.end()

    async def _infer(
        self, message: InferMessage, version: int, context: Context, trace: Trace | None
    ) -> InferenceResponse:
        reply = Reply()
        request = await self._builder.build(message, version, reply, context, trace)
        self._server.submit(request)
        try:
            return await reply.response()
        except asyncio.CancelledError:
            self._server.cancel(request)
            raise

    def end_streams(self) -> None:
        """Close the streams whose clients keep them open without a request in flight."""
        for stream in self._streams:
            stream.end(shutting_down())
