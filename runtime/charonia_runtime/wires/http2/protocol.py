"""A connection on an asyncio transport."""

import asyncio
import logging
import sys
from collections.abc import MutableSet
from typing import Final

from typing_extensions import override

from charonia_runtime.wires.addresses import peer
from charonia_runtime.wires.descriptors import RESERVE_SECONDS, Supply, close_longest_idle, supply_at
from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.connection import Connection
from charonia_runtime.wires.http2.limits import LINGER_SECONDS, Limits
from charonia_runtime.wires.http2.stream import Handler

logger = logging.getLogger(__name__)

_GATHERED_BYTES: Final = 64 * 1024
"""Up to this size frames are written as one buffer: cheaper to copy than to hand over in pieces."""

_TURN_BYTES: Final = 4 * 1024 * 1024
"""What one client gets before others have their turn, however fast it reads."""
_LAST_BYTES_SECONDS: Final = 60.0
"""How long a client may take to read the end of what it was sent before a connection is closed."""


class ConnectionProtocol(asyncio.BufferedProtocol):
    """
    Reads into a buffer that all connections share, and writes once for each turn of the loop.

    What a read leaves over of a frame is kept and put before the next one. `lost` is done when the connection is gone.
    """

    def __init__(
        self, handler: Handler, limits: Limits, read_buffer: memoryview, connections: MutableSet["ConnectionProtocol"]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_buffer = read_buffer
        self._connections = connections
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self._hanging_up: asyncio.TimerHandle | None = None
        self._awaits_turn = False
        self._gathered_bytes = _GATHERED_BYTES
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.connection = Connection(handler, limits, self._loop.time(), self._wake)

    # --- the transport's side ---

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # sockets have full transports
        self.connection.client = peer(transport)
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None and ssl_object.selected_alpn_protocol() != "h2":
            self.abort()
            return
        if ssl_object is not None:
            self._gathered_bytes = sys.maxsize  # each piece would be a TLS record of its own
        supply = supply_at(transport)
        if supply is not Supply.AMPLE:
            made_room = close_longest_idle(
                other for other in self._connections if not (other.connection.streams or other.connection.is_closed)
            )
            if supply is Supply.SPENT and not made_room:
                self.abort()
                return
            self._loop.call_later(RESERVE_SECONDS, self.drain)
        self._connections.add(self)
        self._flush()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._transport = None
        if self._hanging_up is not None:
            self._hanging_up.cancel()
        self.connection.lose()
        if not self.lost.done():
            self.lost.set_result(None)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        rest = self._rest
        if not rest:
            return self._read_buffer
        self._read_buffer[: len(rest)] = rest
        return self._read_buffer[len(rest) :]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        connection = self.connection
        connection.outbox.is_awake = True
        end = len(self._rest) + nbytes
        data = self._read_buffer[:end]
        try:
            taken = connection.receive(data, self._loop.time())
        except Exception:
            logger.exception("unexpected error while reading an HTTP/2 connection, which is closed")
            self.abort()
            return
        self._rest = b"" if taken == end else data[taken:].tobytes()
        self._flush()

    @override
    def pause_writing(self) -> None:
        self.connection.outbox.is_writable = False

    @override
    def resume_writing(self) -> None:
        outbox = self.connection.outbox
        outbox.is_writable = True
        if not outbox.is_awake:
            outbox.is_awake = True
            self._flush()

    # --- writing ---

    def _wake(self) -> None:
        self._loop.call_soon(self._flush)

    def _flush_next_turn(self) -> None:
        self._awaits_turn = False
        self._flush()

    def _flush(self) -> None:
        if self._awaits_turn:
            return
        outbox = self.connection.outbox
        written = 0
        while (transport := self._transport) is not None and (outbox.is_writable or self.connection.is_closed):
            if written > _TURN_BYTES:
                self._awaits_turn = True
                self._loop.call_soon(self._flush_next_turn)
                return
            frames = outbox.take()
            written += outbox.last_size
            if not frames:
                if outbox.resume_drained():
                    continue
                break
            if len(frames) == 1:
                transport.write(frames[0])
            elif outbox.last_size <= self._gathered_bytes:
                transport.write(b"".join(frames))
            else:
                transport.writelines(frames)
        outbox.is_awake = False
        if self.connection.is_closed:
            self._hang_up()

    # --- endings ---

    @property
    def last_activity(self) -> float:
        """When the client sent something, a time of the event loop."""
        return self.connection.last_received

    def close(self) -> None:
        """Tell the client to connect anew, and close."""
        self.connection.dismiss(errors.NO_ERROR, "no room for idle connections")
        self._flush()

    def tick(self, now: float) -> None:
        """Do what the time asks for."""
        self.connection.tick(now)
        if self.connection.is_closed:
            self._flush()

    def drain(self) -> None:
        """Ask the client to go elsewhere, serve what it has begun, close."""
        self.connection.drain(self._loop.time())

    def abort_unless_used(self) -> None:
        """Close if the client has not said yet that it speaks HTTP/2."""
        if not self.connection.has_begun:
            self.abort()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self.connection.lose()
        if self._transport is not None:
            self._transport.abort()

    def _hang_up(self) -> None:
        transport = self._transport
        if self._hanging_up is not None or transport is None:
            return
        lingers = self.connection.is_dismissed and transport.can_write_eof()
        if lingers:
            transport.write_eof()
        else:
            transport.close()
        self._hanging_up = self._loop.call_later(LINGER_SECONDS if lingers else _LAST_BYTES_SECONDS, transport.abort)
