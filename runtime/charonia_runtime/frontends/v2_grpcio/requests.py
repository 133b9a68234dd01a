"""From a client's message to a request that the server may take; the same for single calls and streams."""

import asyncio
import time

from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.request import InferenceRequest, ResponseSink, Trace
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpcio import metadata
from charonia_runtime.frontends.v2_grpcio.status import Context
from charonia_runtime.protocols.v2_proto.infer import InferMessage


class RequestBuilder:
    """Makes requests of messages, with the metadata that is to be forwarded."""

    __slots__ = ("_filter", "server")

    def __init__(self, server: InferenceServer, header_filter: HeaderFilter) -> None:
        self.server = server
        self._filter = header_filter

    async def build(
        self, message: InferMessage, version: int, sink: ResponseSink, context: Context, trace: Trace | None
    ) -> InferenceRequest:
        """The request to `version`, not submitted yet. Raises InvalidArgumentError."""
        if message.is_slow:
            loop = asyncio.get_running_loop()
            request = await loop.run_in_executor(None, message.request, version, sink)
        else:
            request = message.request(version, sink)
        if self._filter:
            self._filter.forward(metadata.pairs(context), request.parameters)
        if trace is not None:
            trace.note("GRPC_WAITREAD_END", time.monotonic_ns())
            request.trace = trace
        return request


def begin_trace(server: InferenceServer, model: str, context: Context) -> Trace | None:
    """The trace of a request whose message has come; None for most."""
    trace = server.tracing.sample(model, metadata.find(context, "traceparent"))
    if trace is not None:
        trace.note("GRPC_WAITREAD_START", time.monotonic_ns())
    return trace
