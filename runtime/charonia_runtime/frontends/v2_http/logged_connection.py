"""Requests whose answers the log tells of: a connection that looks at what its exchange sends."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from charonia_runtime.protocols.v2_documents import read_error
from charonia_runtime.request_log import RequestLog
from charonia_runtime.wires.http1.answer_writer import Buffer
from charonia_runtime.wires.http1.messages import Exchange, Request

_MODEL: Final = re.compile(r"/models/([^/]+)/")
_CLIENT_GONE: Final = 499
"""The status of requests whose clients went before an answer began, as in the logs of nginx. No client sees it."""
_LEAST_ERROR: Final = 400


class TellingExchange(Exchange, Protocol):
    """An exchange that knows what the bytes of its answer do not say."""

    @property
    def request_id(self) -> str: ...

    @property
    def failure(self) -> str:
        """Why the request failed, where an answer of status 200 had begun before; empty if it did not."""


class AnsweringConnection(Protocol):
    """What exchanges ask of their connection: see `wires.http1.connection.Connection`."""

    exchange: Exchange | None

    @property
    def client(self) -> str: ...

    @property
    def unsent_bytes(self) -> int: ...

    def when_ready(self, resume: Callable[[], None]) -> None: ...

    def answer(self, status: int, fields: bytes, parts: Sequence[Buffer] = ()) -> None: ...

    def begin_stream(self, status: int, fields: bytes) -> None: ...

    def send_chunk(self, data: bytes) -> None: ...

    def end_stream(self) -> None: ...

    def abort(self) -> None: ...


class LoggedConnection:
    """
    A connection for one request, whose line it writes when the answer is complete or the client gone.

    It stands between the connection and the exchange, for both sides: requests that are not told do without it.
    """

    __slots__ = (
        "_began_ns", "_connection", "_exchange", "_is_over", "_log", "_request", "_sent_bytes", "_status",
        "client",
    )  # fmt: skip

    def __init__(self, connection: AnsweringConnection, request: Request, log: RequestLog) -> None:
        self._connection = connection
        self.client = connection.client
        self._request = request
        self._log = log
        self._began_ns = time.monotonic_ns()
        self._exchange: TellingExchange | None = None
        self._status = 0
        """That of an answer that has begun."""
        self._sent_bytes = 0
        self._is_over = False

    # --- what the exchange asks of its connection ---

    @property
    def exchange(self) -> Exchange | None:
        return self._exchange if self._connection.exchange is self else None

    @exchange.setter
    def exchange(self, exchange: Exchange | None) -> None:
        if exchange is None:
            self._connection.exchange = None
        else:
            self._exchange = cast("TellingExchange", exchange)
            self._connection.exchange = self

    @property
    def unsent_bytes(self) -> int:
        return self._connection.unsent_bytes

    def when_ready(self, resume: Callable[[], None]) -> None:
        self._connection.when_ready(resume)

    def answer(self, status: int, fields: bytes, parts: Sequence[Buffer] = ()) -> None:
        self._connection.answer(status, fields, parts)
        self._sent_bytes = sum(memoryview(part).nbytes for part in parts)
        self._tell(status, read_error(b"".join(parts)) if status >= _LEAST_ERROR else "")

    def begin_stream(self, status: int, fields: bytes) -> None:
        self._status = status
        self._connection.begin_stream(status, fields)

    def send_chunk(self, data: bytes) -> None:
        self._sent_bytes += len(data)
        self._connection.send_chunk(data)

    def end_stream(self) -> None:
        self._connection.end_stream()
        self._tell(self._status)

    def abort(self) -> None:
        self._connection.abort()
        self._tell(self._status or _CLIENT_GONE, "the client was cut off: it takes too little of its answer")

    # --- what the connection tells its exchange ---

    def disconnected(self) -> None:
        exchange = self._exchange
        self._tell(self._status or _CLIENT_GONE, "the client went away before its answer was complete")
        if exchange is not None:
            exchange.disconnected()

    def _tell(self, status: int, failure: str = "") -> None:
        if self._is_over:
            return
        self._is_over = True
        exchange, self._exchange = self._exchange, None
        request = self._request
        path = request.head.path
        model = _MODEL.search(f"{path}/")
        failure = failure or (exchange.failure if exchange is not None else "")
        has_failed = bool(failure) or status >= _LEAST_ERROR
        self._log.write(
            "HTTP",
            f"{request.head.method.decode('latin-1')} {path}",
            status,
            self._began_ns,
            model=model[1] if model else "",
            received=request.body.nbytes,
            sent=self._sent_bytes,
            request_id=exchange.request_id if exchange is not None else "",
            client=self.client,
            error=(failure or "no text") if has_failed else None,
        )
