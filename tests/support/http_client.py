"""A raw HTTP client for tests of what is on the wire."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_http import Frontend, Options


@dataclass
class Answer:
    """One answer, headers with their names in lower case."""

    status_line: str
    headers: dict[str, str]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.status_line.split(" ")[1])


class RawClient:
    """One connection. Everything waits at most five seconds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, *, head_only: bool = False) -> Answer:
        """Read one complete answer."""
        async with asyncio.timeout(5):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            if head_only:
                body = b""
            elif headers.get("transfer-encoding") == "chunked":
                body = b"".join([chunk async for chunk in self.chunks()])
            elif "content-length" in headers:
                body = await self._reader.readexactly(int(headers["content-length"]))
            else:
                body = b""
        return Answer(status_line, headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a chunked body, after its head."""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)

    async def rest(self) -> bytes:
        """All bytes until the server closes; a reset counts as closing."""
        async with asyncio.timeout(5):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    async def reset(self) -> None:
        """Close as a client that is killed with bytes unread: the server hears of it at once."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Client:
    """Opens connections to one frontend."""

    def __init__(self, frontend: Frontend) -> None:
        host, _, port = frontend.address.rpartition(":")
        self.place = (host, int(port))
        self.frontend = frontend

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RawClient]:
        client = RawClient(*await asyncio.open_connection(*self.place))
        try:
            yield client
        finally:
            await client.close()

    async def ask(
        self, method: str, path: str, body: bytes | str = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        content = body.encode() if isinstance(body, str) else body
        lines = [f"{name}: {value}\r\n" for name, value in {"Host": "x", **(headers or {})}.items()]
        head = f"{method} {path} HTTP/1.1\r\n{''.join(lines)}Content-Length: {len(content)}\r\n\r\n"
        async with self.connect() as client:
            await client.send(head.encode() + content)
            return await client.answer(head_only=method == "HEAD")


@asynccontextmanager
async def http_frontend(server: InferenceServer, **options: object) -> AsyncIterator[Client]:
    """A started frontend on a free port."""
    frontend = Frontend(Options(http_address="127.0.0.1", http_port=0, **options), server)  # type: ignore[arg-type]
    await frontend.start()
    try:
        yield Client(frontend)
    finally:
        await frontend.stop(1)
