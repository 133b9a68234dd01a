"""A socket that HTTP/1.1 is served on: accept, hang up on clients that stall, stop in time."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import uvicorn
from typing_extensions import override

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.wires.addresses import BACKLOG
from charonia_runtime.wires.certificates import FollowedCertificate
from charonia_runtime.wires.http1.connection import Connection, Handler
from charonia_runtime.wires.http1.heads import KnownHeads
from charonia_runtime.wires.http1.limits import Limits

_READ_BUFFER_BYTES: Final = 64 * 1024
_SWEEP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. With `root_certificates`, clients must show a certificate that descends from one of them."""

    certificate: str
    key: str
    root_certificates: str | None = None


class Listener(uvicorn.Server):
    """
    uvicorn's life cycle around our own connections.

    It leaves signals to the process that it is part of, and stops when it is told to: without a poll, so that neither
    an idle server nor a stopping one wakes up for nothing.
    """

    def __init__(self, handler: Handler, limits: Limits, tls: TlsFiles | None = None) -> None:
        super().__init__(uvicorn.Config(
            _no_application,
            http=cast("Any", self._connect),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
            ssl_ca_certs=tls.root_certificates if tls else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.root_certificates else ssl.CERT_NONE,
        ))  # fmt: skip
        self.connections: set[Connection] = set()
        self._tls = tls
        self._certificate: FollowedCertificate | None = None
        self._handler = handler
        self._limits = limits
        # One for all connections: what is in it is used up before the next one reads.
        self._read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._heads = KnownHeads()
        self._running = asyncio.Event()
        self._stopping = asyncio.Event()
        self._grace_seconds = 0.0
        self._is_retiring = False
        self._serving: asyncio.Task[None] | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self, bound: socket.socket) -> None:
        """Serve a socket that `addresses.bind` gave. Raises InvalidArgumentError when a file for TLS cannot be used."""
        try:
            self.config.load()
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(f"the certificates for HTTPS cannot be used: {error}") from error
        self._serving = asyncio.create_task(self.serve(sockets=[bound]))
        self._serving.add_done_callback(lambda _: self._running.set())
        await self._running.wait()
        if self._serving.done():
            await self._serving
        if self._tls is not None and self.config.ssl is not None:
            self._certificate = FollowedCertificate(
                self.config.ssl, self._tls.certificate, self._tls.key, self._tls.root_certificates
            )
        self._sweep_connections()

    def retire(self) -> None:
        """
        Go on serving, each connection until its next answer, which says that it is the last.

        An idle connection stays open for the same reason: closing it could cross a request on its way.
        """
        self._is_retiring = True
        for connection in self.connections:
            connection.retire()

    async def stop(self, timeout_seconds: float) -> None:
        """
        Accept nothing new, finish what is in flight within the time, then close every connection.

        An idle connection is served once more for a moment (`Limits.farewell_seconds`): a request may be on its way.
        """
        if self._serving is None:
            return
        if self._sweep is not None:
            self._sweep.cancel()
        if self._certificate is not None:
            self._certificate.stop()
        self._grace_seconds = timeout_seconds
        self._stopping.set()
        await self._serving
        self._serving = None

    def close_stalled(self, now: float) -> None:
        """Close connections whose clients stalled too long before `now`, a time of the event loop."""
        for connection in list(self.connections):
            connection.close_if_stalled(now)

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @override
    async def main_loop(self) -> None:
        self._running.set()
        await self._stopping.wait()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace_seconds
        self.retire()
        await self._wait_for_rest(min(self._limits.farewell_seconds, self._grace_seconds))
        for connection in list(self.connections):
            connection.shutdown()
        await self._wait_for_rest(deadline - loop.time())
        for connection in list(self.connections):
            connection.abort()
        for task in list(self._handler.tasks):
            task.cancel()

    async def _wait_for_rest(self, seconds: float) -> None:
        """Wait until every connection is gone and every task done, at most so long."""
        unfinished = {*(connection.lost for connection in self.connections), *self._handler.tasks}
        if unfinished and seconds > 0:
            await asyncio.wait(unfinished, timeout=seconds)

    def _connect(self, **_: Any) -> Connection:
        """A new connection, in uvicorn's terms a protocol class."""
        connection = Connection(self._handler, self._limits, self._read_buffer, self._heads, self.connections)
        if self._is_retiring:
            connection.retire()
        return connection

    def _sweep_connections(self) -> None:
        """Close what stalls. One timer for all: a timer for each would cost every request."""
        loop = asyncio.get_running_loop()
        self.close_stalled(loop.time())
        self._sweep = loop.call_later(_SWEEP_SECONDS, self._sweep_connections)


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """What uvicorn is given to serve: our connections hand requests to their handler."""
