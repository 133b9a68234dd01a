"""A socket that HTTP/2 is served on: accept, watch the clocks of all connections, stop in time."""

import asyncio
import socket
import ssl
from typing import Final

from charonia_runtime.wires.addresses import BACKLOG
from charonia_runtime.wires.http2.frame_reader import largest_whole_frame
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.protocol import ConnectionProtocol
from charonia_runtime.wires.http2.stream import Handler

_READ_BUFFER_BYTES: Final = 256 * 1024
_LONGEST_SWEEP_SECONDS: Final = 2.0
_SHORTEST_SWEEP_SECONDS: Final = 0.05


class Listener:
    """Serves a handler on bound sockets, over TLS where it is given a context."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self._handler = handler
        self._limits = limits
        self.connections: set[ConnectionProtocol] = set()
        # One for all connections: what is in it is used up before the next one reads.
        size = max(_READ_BUFFER_BYTES, 2 * largest_whole_frame(limits))
        self._read_buffer = memoryview(bytearray(size))
        self._servers: list[asyncio.Server] = []
        self._sweep_seconds = _sweep_seconds(limits)
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self, bound: socket.socket, ssl_context: ssl.SSLContext | None = None) -> None:
        """Serve a socket that `addresses.bind` gave. The context is told to agree on `h2` alone (ALPN)."""
        if ssl_context is not None:
            ssl_context.set_alpn_protocols(["h2"])
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._connect,
            sock=bound,
            backlog=BACKLOG,
            ssl=ssl_context,
            ssl_handshake_timeout=(self._limits.handshake_seconds or None) if ssl_context is not None else None,
        )
        self._servers.append(server)
        if self._sweep is None:
            self._sweep = loop.call_later(self._sweep_seconds, self._sweep_connections)

    def drain(self) -> None:
        """Ask the clients that there are to go elsewhere, and go on serving: those that come are not turned away."""
        for connection in list(self.connections):
            connection.drain()

    async def stop(self, timeout_seconds: float) -> None:
        """Accept nothing new, finish what is in flight within the time, then close every connection."""
        for server in self._servers:
            server.close()
        self._servers = []
        self.drain()
        for connection in list(self.connections):
            connection.abort_unless_used()
        unfinished = [connection.lost for connection in self.connections]
        if unfinished:
            await asyncio.wait(unfinished, timeout=timeout_seconds)
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self.connections):
            connection.abort()

    def tick(self, now: float) -> None:
        """Do what the time asks for on every connection; `now` is a time of the event loop."""
        for connection in list(self.connections):
            connection.tick(now)

    def _connect(self) -> ConnectionProtocol:
        return ConnectionProtocol(self._handler, self._limits, self._read_buffer, self.connections)

    def _sweep_connections(self) -> None:
        """One timer for all: a timer for each would cost every request."""
        loop = asyncio.get_running_loop()
        self.tick(loop.time())
        self._sweep = loop.call_later(self._sweep_seconds, self._sweep_connections)


def _sweep_seconds(limits: Limits) -> float:
    """Often enough for the shortest time among the limits."""
    times = (
        limits.handshake_seconds, limits.stall_seconds, limits.keepalive_seconds, limits.keepalive_timeout_seconds,
        limits.connection_age_seconds, limits.connection_age_grace_seconds,
        limits.pause_seconds, limits.idle_seconds,
    )  # fmt: skip
    shortest = min((seconds for seconds in times if seconds), default=_LONGEST_SWEEP_SECONDS)
    return min(max(shortest / 4, _SHORTEST_SWEEP_SECONDS), _LONGEST_SWEEP_SECONDS)
