"""
The little of HTTP/1.1 that a metrics port needs: GET without a body, answered one after the other.

A client may keep its connection, pipeline, stall, or send anything: it holds a few kilobytes and nothing else, for a
minute at most.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from typing_extensions import override

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.frontends.metrics.exposition import CONTENT_TYPE

logger = logging.getLogger(__name__)

HEAD_LIMIT_BYTES: Final = 16 * 1024
TIMEOUT_SECONDS: Final = 60.0

_PATHS: Final = {b"/metrics", b"/metrics/"}
_NOT_ALLOWED: Final = b'{"error":"Method Not Allowed"}'

Answer = Callable[[], Awaitable[bytes]]
"""Makes the text of `/metrics`."""


class MalformedHeadError(ValueError):
    """What a client sent is no request."""


class RequestHead:
    """What matters of one request's head."""

    __slots__ = ("body", "keep_alive", "method", "path", "version")

    def __init__(self, head: bytes) -> None:
        request_line, *lines = head.split(b"\r\n")
        parts = request_line.split(b" ")
        if len(parts) != 3 or parts[2] not in {b"HTTP/1.0", b"HTTP/1.1"}:
            raise MalformedHeadError
        headers: dict[bytes, bytes] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise MalformedHeadError
            headers[name.lower()] = value.strip().lower()
        self.method, target, self.version = parts
        self.path = target.partition(b"?")[0]
        self.body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        connection = headers.get(b"connection", b"")
        self.keep_alive = b"keep-alive" in connection if self.version == b"HTTP/1.0" else b"close" not in connection


class Connection(asyncio.Protocol):
    """One client's connection. `connections` holds the open ones."""

    def __init__(self, answer: Answer, connections: "set[Connection]") -> None:
        self._answer = answer
        self._connections = connections
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._start_timer()

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._next()
        elif len(self._buffer) > HEAD_LIMIT_BYTES:
            self._transport.pause_reading()

    @override
    def eof_received(self) -> bool:
        """A client that has said all still gets the answer it waits for."""
        self._closing = True
        return self._task is not None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    @property
    def task(self) -> "asyncio.Task[None] | None":
        """The answer that is being made; None while the connection is idle."""
        return self._task

    def close(self) -> None:
        """Finish the answer that is being made, then hang up."""
        self._closing = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _next(self) -> None:
        """Take the next request out of the buffer, if it is complete."""
        end = self._buffer.find(b"\r\n\r\n", 0, HEAD_LIMIT_BYTES)
        if end < 0:
            if len(self._buffer) >= HEAD_LIMIT_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")
            return
        try:
            head = RequestHead(bytes(self._buffer[:end]))
        except MalformedHeadError:
            self._refuse(b"400 Bad Request")
            return
        del self._buffer[: end + 4]
        # A body is not read: the connection ends behind the answer.
        self._closing = self._closing or head.body or not head.keep_alive
        self._timer.cancel()
        self._task = asyncio.get_running_loop().create_task(self._handle(head))

    async def _handle(self, head: RequestHead) -> None:
        status, content_type, body = b"200 OK", CONTENT_TYPE.encode(), b""
        if head.method != b"GET":
            status, content_type, body = b"405 Not Allowed", b"text/plain", _NOT_ALLOWED
        elif head.path in _PATHS:
            try:
                body = await self._answer()
            except InferenceError as error:
                logger.warning("failed to collect metrics: %s", error.message)
                status = b"503 Service Unavailable"
            except Exception:
                logger.exception("failed to collect metrics")
                status = b"500 Internal Server Error"
        self._task = None
        if self._transport.is_closing():
            return
        self._write(head, status, content_type, body)
        self._start_timer()
        if self._closing:
            self._transport.close()
        else:
            self._transport.resume_reading()
            self._next()

    def _write(self, head: RequestHead, status: bytes, content_type: bytes, body: bytes) -> None:
        connection = b""
        if self._closing:
            connection = b"Connection: close\r\n"
        elif head.version == b"HTTP/1.0":
            connection = b"Connection: keep-alive\r\n"
        self._transport.write(
            b"%b %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b"
            % (head.version, status, content_type, len(body), connection, b"" if head.method == b"HEAD" else body)
        )

    def _start_timer(self) -> None:
        """Give the client its time to take the last answer and send the next request."""
        self._timer = asyncio.get_running_loop().call_later(TIMEOUT_SECONDS, self._transport.abort)

    def _refuse(self, status: bytes) -> None:
        self._transport.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        self._buffer.clear()
        self._transport.close()
