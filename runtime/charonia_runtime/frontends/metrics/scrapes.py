"""What the metrics port answers: its pages by tasks, every other path with nothing, as Triton does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from charonia_runtime.core.answers import AnswerCounts
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.frontends.metrics.exposition import CONTENT_TYPE
from charonia_runtime.wires.http1.connection import Connection
from charonia_runtime.wires.http1.limits import Limits
from charonia_runtime.wires.http1.messages import HandlerFailureError, RefusedRequestError, Request

logger = logging.getLogger(__name__)

LIMITS: Final = Limits(
    body_bytes=64 * 1024,
    read_timeout_seconds=60.0,
    head_timeout_seconds=60.0,
    idle_timeout_seconds=3600.0,
    write_timeout_seconds=30.0,
    uses_last_descriptors=True,
    farewell_seconds=0.0,
)
"""A scraper has nothing to say in a body; what one sends all the same is read and ignored."""

_CONTENT: Final = f"Content-Type: {CONTENT_TYPE}\r\n".encode()
_TEXT: Final = b"Content-Type: text/plain\r\n"
JSON_HEADERS: Final = b"Content-Type: application/json\r\n"
_NOT_ALLOWED: Final = b'{"error":"Method Not Allowed"}'


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered on a path: made anew each time."""

    make: Callable[[], Awaitable[bytes]]
    headers: bytes = _CONTENT


class Scrapes:
    """The handler of all connections (`wires.http1.connection.Handler`)."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        """`pages` by their paths, which may also end in a slash."""
        self.tasks = set[asyncio.Task[None]]()
        self.answered = AnswerCounts().of("metrics")
        self._pages = pages

    def begin(self, connection: Connection, request: Request) -> None:
        if request.head.method != b"GET":
            connection.answer(405, _TEXT, [_NOT_ALLOWED])
            return
        page = self._pages.get(request.path.removesuffix("/"))
        if page is None:
            connection.answer(200, _CONTENT)
        else:
            task = asyncio.get_running_loop().create_task(self._scrape(connection, page))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            connection.exchange = _Scrape(task)

    def refuse(self, _: Connection, refusal: RefusedRequestError) -> tuple[int, bytes, bytes]:
        return 500 if isinstance(refusal, HandlerFailureError) else 400, _TEXT, str(refusal).encode()

    async def _scrape(self, connection: Connection, page: Page) -> None:
        try:
            connection.answer(200, page.headers, [await page.make()])
        except InferenceError as error:
            logger.warning("failed to collect metrics: %s", error.message)
            connection.answer(503, _CONTENT)
        except Exception:
            logger.exception("failed to collect metrics")
            connection.answer(500, _CONTENT)


class _Scrape:
    """The exchange of a connection that waits for the text: nobody else needs it."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def disconnected(self) -> None:
        self._task.cancel()
