"""The life of the gRPC listener: start, serve, stop."""

import asyncio
import logging

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpcio.control import ControlCalls
from charonia_runtime.frontends.v2_grpcio.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpcio.listener import Listener, open_server
from charonia_runtime.frontends.v2_grpcio.options import Options
from charonia_runtime.frontends.v2_grpcio.router import Router

logger = logging.getLogger(__name__)

_LAST_WRITES_SECONDS = 1.0
"""How long answers that are ready may take to leave once nothing is in flight."""


class Frontend:
    """Serves gRPC v2 for an inference server, on the event loop that `start` is called on."""

    name = "GRPC"

    def __init__(self, options: Options, server: InferenceServer) -> None:
        self.address = f"{options.grpc_address}:{options.grpc_port}"
        self._options = options
        self._server = server
        self._inference: InferenceCalls | None = None
        self._listener: Listener | None = None

    async def start(self) -> None:
        """
        Bind and serve.

        Raises UnavailableError when the address is taken, InvalidArgumentError when a file for TLS cannot be used.
        """
        self._inference = InferenceCalls(self._server, self._options)
        router = Router(ControlCalls(self._server), self._inference, self._options)
        self._listener, self.address = open_server(self._options, router)
        await self._listener.start()
        logger.info("Started GRPCInferenceService at %s", self.address)

    def retire(self) -> None:
        """Nothing: grpc can ask clients to reconnect only by `Options.grpc_max_connection_age`."""

    async def stop(self, timeout_seconds: float) -> None:
        """Refuse new inference requests, answer those in flight within the time, then close every connection."""
        if self._listener is None or self._inference is None:
            return
        in_flight = self._inference.in_flight
        in_flight.stopping = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while in_flight.count and (left := deadline - loop.time()) > 0:
            logger.info(
                "Timeout %d: Found %d GRPC service connections and inference handlers", round(left), in_flight.count
            )
            await in_flight.wait_idle(min(1.0, left))
        self._inference.end_streams()
        await self._listener.stop(None if in_flight.count else _LAST_WRITES_SECONDS)
        self._listener = None
