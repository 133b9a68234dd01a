"""A server and what another process would see of it, both ends of the link on one event loop."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from os import dup
from typing import Any

from charonia_runtime.core.server import LogSettings, MirroredServer
from charonia_runtime.remote.link import Ends
from charonia_runtime.remote.peer import Peer, Peers
from charonia_runtime.remote.server import RemoteServer


@dataclass
class Connection:
    """Both ends, and what their owners were told."""

    server: RemoteServer
    peer: Peer
    notices: list[Mapping[str, Any]] = field(default_factory=list)
    """What either end was told by the other's owner."""
    logs: list[LogSettings] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    """Which end found the other one gone."""


@asynccontextmanager
async def connected(server: MirroredServer, peers: Peers | None = None) -> AsyncIterator[Connection]:
    """`server` as it is seen through a link."""
    ends = Ends.make()
    notices: list[Mapping[str, Any]] = []
    logs: list[LogSettings] = []
    closed: list[str] = []
    theirs = dup(ends.segment)
    peer = Peer(
        server, ends.ours, ends.segment, peers or Peers(), noticed=notices.append, closed=lambda: closed.append("peer")
    )
    remote = RemoteServer(
        ends.theirs, theirs, noticed=notices.append, log_changed=logs.append, lost=lambda: closed.append("server")
    )
    try:
        await peer.start()
        await remote.start()
        yield Connection(remote, peer, notices, logs, closed)
    finally:
        remote.close()
        peer.close()
