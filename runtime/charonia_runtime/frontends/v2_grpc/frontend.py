"""The life of the gRPC listener: start, serve, stop."""

import asyncio
import logging

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.keepalive import keepalive_table
from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.frontends.v2_grpc.router import Router
from charonia_runtime.frontends.v2_grpc.transports import Transport, load_transport
from charonia_runtime.wires.addresses import join

logger = logging.getLogger(__name__)

_LAST_WRITES_SECONDS = 1.0
"""How long answers that are ready may take to leave once nothing is in flight."""


class Frontend:
    """Serves gRPC v2 for an inference server, on the event loop that `start` is called on."""

    name = "GRPC"

    def __init__(self, options: Options, server: InferenceServer) -> None:
        self.address = join(options.grpc_address, options.grpc_port)
        self._options = options
        self._inference = InferenceCalls(server, options)
        self._watch = HealthWatch(server)
        self._router = Router(server, self._inference, self._watch, options)
        self._transport: Transport | None = None

    async def start(self) -> None:
        """
        Bind and serve.

        Raises UnavailableError when the address is taken, InvalidArgumentError when a file for TLS cannot be used.
        """
        transport = load_transport(self._options.grpc_transport)(self._options, self._router)
        self.address = await transport.start()
        self._transport = transport
        logger.debug(keepalive_table(self._options))
        logger.info("Started GRPCInferenceService at %s", self.address)

    def retire(self) -> None:
        """Go on serving, and bring clients to connect elsewhere."""
        if self._transport is not None:
            self._transport.retire()

    async def stop(self, timeout_seconds: float) -> None:
        """Refuse new inference requests, answer those in flight within the time, then close every connection."""
        if self._transport is None:
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
        self._watch.stop()
        await self._transport.stop(0 if in_flight.count else _LAST_WRITES_SECONDS)
        self._transport = None
