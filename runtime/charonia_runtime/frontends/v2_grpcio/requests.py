"""From a client's message to a request that the server may take; the same for single calls and streams."""

import asyncio

from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.request import InferenceRequest, ResponseSink
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
        self, message: InferMessage, version: int, sink: ResponseSink, context: Context
    ) -> InferenceRequest:
        """The request to `version`, not submitted yet. Raises InvalidArgumentError."""
        if message.is_slow:
            loop = asyncio.get_running_loop()
            request = await loop.run_in_executor(None, message.request, version, sink)
        else:
            request = message.request(version, sink)
        if self._filter:
            self._filter.forward(metadata.pairs(context), request.parameters)
        return request
