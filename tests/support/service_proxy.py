"""
`ServiceProxy`: what a Kubernetes Service is to its clients, for tests of rolling stops.

    async with ServiceProxy([server.grpc for server in servers], [server.http for server in servers]) as service:
        ...                                  # clients connect to service.address

New connections go to endpoints that are ready, by turns; connections that exist stay where they are.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

_PROBE_SECONDS = 0.05


class ServiceProxy:
    """
    Forwards TCP. `probes` are the HTTP addresses that tell whether an endpoint is ready, in the order of `endpoints`.
    """

    def __init__(self, endpoints: Sequence[str], probes: Sequence[str]) -> None:
        self.address = ""
        self.ready: set[str] = set()
        """The endpoints that new connections go to."""
        self._probes = dict(zip(endpoints, probes, strict=True))
        self._turns = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._look()
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self._start(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            await self._look()

    async def _look(self) -> None:
        found = await asyncio.gather(*map(_is_ready, self._probes.values()))
        self.ready = {endpoint for endpoint, ready in zip(self._probes, found, strict=True) if ready}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = sorted(self.ready)
        host, _, port = ready[next(self._turns) % len(ready)].rpartition(":")
        to_server = await asyncio.open_connection(host, int(port))
        pumps = [self._start(_pump(reader, to_server[1])), self._start(_pump(to_server[0], writer))]
        await asyncio.wait(pumps)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with _closing(writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close the connection in any case. That the other side did is no error."""
    with suppress(ConnectionError):
        try:
            yield
        finally:
            writer.close()
            await writer.wait_closed()


async def _is_ready(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    status = b""
    async with _closing(writer):
        writer.write(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        status = await reader.readline()
    return b" 200 " in status
