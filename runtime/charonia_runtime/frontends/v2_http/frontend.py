"""The HTTP listener's life: bind, serve, stop."""

import logging

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_http.control.application import control_application
from charonia_runtime.frontends.v2_http.options import Options
from charonia_runtime.frontends.v2_http.routes import Routes
from charonia_runtime.frontends.v2_http.services import Services
from charonia_runtime.wires.addresses import bind, join
from charonia_runtime.wires.http1.listener import Listener

logger = logging.getLogger(__name__)


class Frontend:
    """REST v2 over HTTP/1.1 (`core.frontend.Frontend`)."""

    name = "HTTP"

    def __init__(self, options: Options, server: InferenceServer) -> None:
        self.address = join(options.http_address, options.http_port)
        self._options = options
        self._services = Services.of(options, server)
        self._listener: Listener | None = None

    async def start(self) -> None:
        """
        Bind and serve.

        Raises UnavailableError when the address cannot be had, InvalidArgumentError when a file for TLS cannot be used.
        """
        options = self._options
        bound = bind(options.http_address, options.http_port, share_port=options.reuse_http_port)
        host, port = bound.getsockname()[:2]
        self.address = join(options.http_address or host, port)
        routes = Routes(self._services, control_application(self._services))
        self._listener = Listener(routes, self._services.limits, options.tls())
        try:
            await self._listener.start(bound)
        except InvalidArgumentError:
            bound.close()
            self._listener = None
            raise
        logger.info("Started HTTPService at %s", self.address)

    def retire(self) -> None:
        """Go on serving, and close each connection with its next answer."""
        if self._listener is not None:
            self._listener.retire()

    async def stop(self, timeout_seconds: float) -> None:
        """Accept nothing new, finish what is in flight within the time, then close every connection."""
        if self._listener is not None:
            await self._listener.stop(timeout_seconds)
            self._listener = None
