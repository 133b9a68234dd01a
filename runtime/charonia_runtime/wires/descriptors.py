"""
Descriptors that are kept free, so that health and metrics answer although clients hold all others.

The system gives each new connection the lowest free number. A number in the reserve, the highest ones, says that all
below are taken: such a connection closes others, which are idle, and is soon closed itself, so that the reserve is free
for the next.
"""

import asyncio
import heapq
import resource
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, Protocol, TypeVar

_LEAST_RESERVED: Final = 8
_MOST_RESERVED: Final = 64
_SHARE_RESERVED: Final = 8
"""The reserve is this part of what the process may have, between the two above."""
RESERVE_SECONDS: Final = 1.0
"""How long a connection in the reserve may wait for its client."""
_SHARE_CLOSED: Final = 16
"""This part of the idle connections is closed at once: to look through all of them for each new one takes long."""


class Supply(Enum):
    """How many descriptors are left when a connection comes."""

    AMPLE = auto()
    SCARCE = auto()
    """In the reserve: the connection is served once."""
    SPENT = auto()
    """In its last half, which is for metrics and for the server itself."""


class IdleConnection(Protocol):
    """A connection that may make room."""

    @property
    def last_activity(self) -> float: ...

    def close(self) -> None: ...


_Idle = TypeVar("_Idle", bound=IdleConnection)


def supply_at(transport: asyncio.BaseTransport, most: int | None = None) -> Supply:
    """What is left of descriptors, by the number that a new connection has; `most` stands for the process's limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if most is None else most
    sock = transport.get_extra_info("socket")
    if sock is None or limit == resource.RLIM_INFINITY:
        return Supply.AMPLE
    reserve = min(max(limit // _SHARE_RESERVED, _LEAST_RESERVED), _MOST_RESERVED)
    left = limit - sock.fileno()
    if left > reserve:
        return Supply.AMPLE
    return Supply.SCARCE if left > reserve // 2 else Supply.SPENT


def close_longest_idle(connections: Iterable[_Idle]) -> bool:
    """Close some of these connections, which owe nothing, those first that are idle for longest. False without any."""
    idle = list(connections)
    for connection in heapq.nsmallest(
        max(1, len(idle) // _SHARE_CLOSED), idle, key=lambda connection: connection.last_activity
    ):
        connection.close()
    return bool(idle)
