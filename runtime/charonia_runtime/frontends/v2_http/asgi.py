"""An ASGI application behind a connection, for the routes that are not in a hurry."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from charonia_runtime.core.errors import InternalError
from charonia_runtime.frontends.v2_http.answers import JSON, error_answer
from charonia_runtime.frontends.v2_http.logged_connection import AnsweringConnection
from charonia_runtime.wires.http1.messages import Request

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class AsgiExchange:
    """
    Runs the application for one request whose body is complete; its answer is sent when it is complete, too.

    A client that goes away does not cancel the application: a model that is being loaded stays what it is.
    """

    request_id = failure = ""

    def __init__(self, connection: AnsweringConnection, request: Request) -> None:
        self._connection = connection
        self._request = request
        self._status = 0
        self._fields = b""
        self._body: list[bytes] = []
        self._gone = asyncio.Event()
        self._received = False

    def begin(self, application: Application, tasks: set[asyncio.Task[None]]) -> None:
        """Start the application in a task, which is in `tasks` while it runs."""
        self._connection.exchange = self
        task = asyncio.get_running_loop().create_task(self._run(application))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def disconnected(self) -> None:
        self._gone.set()

    async def _run(self, application: Application) -> None:
        try:
            await application(self._scope(), self._receive, self._send)
        except Exception:
            logger.exception("unexpected error while answering %s", self._request.path)
            self._status = 0
        if self._connection.exchange is not self:
            return
        if not self._status:
            status, body = error_answer(InternalError("unexpected error while answering the request"))
            self._connection.answer(status, JSON, [body])
        else:
            self._connection.answer(self._status, self._fields, self._body)

    def _scope(self) -> dict[str, Any]:
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.head.version,
            "method": request.head.method.decode("latin-1"),
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode("utf-8", "surrogateescape"),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.head.headers],
            "client": None,
            "server": None,
        }

    async def _receive(self) -> Message:
        if not self._received:
            self._received = True
            return {"type": "http.request", "body": bytes(self._request.body), "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._fields = b"".join([
                b"%b: %b\r\n" % (name.title(), value)
                for name, value in message.get("headers", ())
                if name not in {b"content-length", b"transfer-encoding"}
            ])  # fmt: skip
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))
