"""From a client's message to a request that the server may take; the same for single calls and streams."""

import time
from collections.abc import Callable

from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.request import InferenceRequest, ResponseSink, Trace
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.metadata import Metadata
from charonia_runtime.protocols.v2_proto.decoder import InferDecoder, Message
from charonia_runtime.thread_pools import CODING


class RequestBuilder:
    """Makes requests of messages, with the metadata that is to be forwarded."""

    __slots__ = ("_filter", "read", "server")

    def __init__(self, server: InferenceServer, header_filter: HeaderFilter, *, newest_rules: bool = True) -> None:
        self.server = server
        self.read = InferDecoder(newest_rules=newest_rules).read
        """Makes a message of bytes."""
        self._filter = header_filter or None

    def build(
        self, message: Message, version: int, sink: ResponseSink, metadata: Metadata, trace: Trace | None
    ) -> InferenceRequest:
        """The request to `version`, not submitted yet. Raises InvalidArgumentError."""
        request = message.request(version, sink)
        if self._filter is not None:
            self._filter.forward(metadata.pairs, request.parameters)
        if trace is not None:
            trace.note("GRPC_WAITREAD_END", time.monotonic_ns())
            request.trace = trace
        return request


def build_beside_the_loop(
    build: Callable[[], InferenceRequest],
    go_on: Callable[[InferenceRequest], None],
    fail: Callable[[Exception], None],
    size: int,
) -> None:
    """Make a request of a message of `size` bytes in a thread, for milliseconds; then one of the two is called."""
    CODING.start(build, go_on, fail, size=size)


def begin_trace(server: InferenceServer, model: str, metadata: Metadata) -> Trace | None:
    """The trace of a request whose message has come; None for most."""
    trace = server.tracing.sample(model, metadata.find("traceparent"))
    if trace is not None:
        trace.note("GRPC_WAITREAD_START", time.monotonic_ns())
    return trace
