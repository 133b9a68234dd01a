"""The HTTP listener's life: bind, serve, stop."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any, Final, cast

import uvicorn
from typing_extensions import override

from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_http.connection import Connection
from charonia_runtime.frontends.v2_http.control.application import control_application
from charonia_runtime.frontends.v2_http.options import Options
from charonia_runtime.frontends.v2_http.routes import Routes
from charonia_runtime.frontends.v2_http.services import Services

logger = logging.getLogger(__name__)

_BACKLOG: Final = 2048
_READ_BUFFER_BYTES: Final = 64 * 1024
_SWEEP_SECONDS: Final = 5.0


class Frontend:
    """REST v2 over HTTP/1.1 (`core.frontend.Frontend`)."""

    name = "HTTP"

    def __init__(self, options: Options, server: InferenceServer) -> None:
        self.address = _join(options.http_address, options.http_port)
        self._options = options
        self._services = Services.of(options, server)
        self._listener: _Listener | None = None
        self._serving: asyncio.Task[None] | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Bind and serve. Raises UnavailableError when the address cannot be had."""
        bound = _bind(self._options, self.address)
        host, port = bound.getsockname()[:2]
        self.address = _join(self._options.http_address or host, port)
        application = control_application(self._services)
        self._listener = _Listener(application, self._services)
        self._serving = asyncio.create_task(self._listener.serve(sockets=[bound]))
        await self._listener.until_started()
        self._sweep_connections()
        logger.info("Started HTTPService at %s", self.address)

    async def stop(self, timeout_seconds: float) -> None:
        """Accept nothing new, finish what is in flight within the time, then close every connection."""
        if self._listener is None or self._serving is None:
            return
        if self._sweep is not None:
            self._sweep.cancel()
        self._listener.begin_stop(timeout_seconds)
        await self._serving
        self._listener.abort_connections()
        self._listener = self._serving = None

    def _sweep_connections(self) -> None:
        """Close connections whose clients stall. One timer for all: a timer for each would cost every request."""
        loop = asyncio.get_running_loop()
        if self._listener is not None:
            self._listener.close_stalled(loop.time())
        self._sweep = loop.call_later(_SWEEP_SECONDS, self._sweep_connections)


class _Listener(uvicorn.Server):
    """uvicorn's life cycle around our own connections; it leaves signals to the process that it is part of."""

    def __init__(self, application: Any, services: Services) -> None:
        super().__init__(uvicorn.Config(
            application,
            http=cast("Any", self._connect),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
        ))  # fmt: skip
        self._routes = Routes(services, application, self.server_state.tasks)
        self._services = services
        self._read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._is_started = asyncio.Event()
        self._stop = asyncio.Event()

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @override
    async def main_loop(self) -> None:
        self._is_started.set()
        await self._stop.wait()

    async def until_started(self) -> None:
        await self._is_started.wait()

    def begin_stop(self, timeout_seconds: float) -> None:
        self.config.timeout_graceful_shutdown = cast("int", timeout_seconds)
        self._stop.set()

    def close_stalled(self, now: float) -> None:
        for connection in list(self._connections):
            connection.close_if_stalled(now)

    def abort_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    @property
    def _connections(self) -> set[Connection]:
        return cast("set[Connection]", self.server_state.connections)

    def _connect(self, **_: Any) -> Connection:
        """A new connection, in uvicorn's terms a protocol class."""
        return Connection(self._routes, self._services.limits, self._read_buffer, self._connections)


def _bind(options: Options, address: str) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            options.http_address, options.http_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise InvalidArgumentError(f"cannot listen on '{address}': {error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if options.reuse_http_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(place)
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except (OSError, OverflowError) as error:
        bound.close()
        raise UnavailableError(f"Socket '{address}' already in use ") from error
    return bound


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
