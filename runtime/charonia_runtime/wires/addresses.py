"""Sockets that listen, and how an address is written."""

import asyncio
import errno
import socket
from typing import Final

from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError

BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""


def bind(host: str, port: int, *, share_port: bool = False) -> socket.socket:
    """
    A listening socket; an empty host stands for every interface.

    Raises InvalidArgumentError for an address that makes no sense, UnavailableError for one that cannot be had.
    """
    return _bound(host, port, share_port=share_port, backlog=BACKLOG)


def reserve(host: str, port: int, *, share_port: bool = False) -> socket.socket:
    """
    A socket that does not listen: the port, or any for 0, is kept for others to listen on that share it.

    Unless strangers may share it too, a port that one of them has is refused. Raises as `bind` does.
    """
    if port and not share_port:
        _bound(host, port, share_port=False).close()
    return _bound(host, port, share_port=True)


def _bound(host: str, port: int, *, share_port: bool, backlog: int = 0) -> socket.socket:
    """Listens where there is a backlog."""
    address = join(host, port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise InvalidArgumentError(f"cannot listen on '{address}': {_reason(error)}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if share_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(place)
        if backlog:
            bound.listen(backlog)
        bound.setblocking(False)
    except (OSError, OverflowError) as error:
        bound.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UnavailableError(f"Socket '{address}' already in use ") from error
        raise UnavailableError(f"cannot listen on '{address}': {_reason(error)}") from error
    return bound


def join(host: str, port: int) -> str:
    """`host:port`, with brackets around a host that has colons itself."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer(transport: asyncio.BaseTransport | None) -> str:
    """Return `host:port` of the other end of a connection; empty where that is not known (any more)."""
    name = None if transport is None else transport.get_extra_info("peername")
    return join(*name[:2]) if isinstance(name, tuple) else ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
