"""Clients that send no more: those that still read get their answer, those that have gone are found out."""

import asyncio
import socket
from collections.abc import Callable

from charonia_runtime.wires.http1.limits import HALF_CLOSED_LOOK_SECONDS


class HalfClosedWatch:
    """
    Tells a client that closed its half of the connection from one that closed all of it.

    Both look the same until something is sent: then the system of a client that has gone says so. `ask` sends
    something. Connections are aborted whose clients have gone. The watch ends when `is_over` says that nothing is owed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        ask: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._ask = ask
        self._is_over = is_over
        self._has_asked = False
        self._look_later()

    def _look_later(self) -> None:
        self._loop.call_later(HALF_CLOSED_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if self._transport.is_closing() or self._is_over():
            return
        if self._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()
            return
        if not self._has_asked:
            self._has_asked = True
            self._ask()
        self._look_later()
