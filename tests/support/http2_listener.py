"""A real HTTP/2 listener on the loopback interface, and raw connections to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from charonia_runtime.wires.addresses import bind
from charonia_runtime.wires.http2.frames import frame_header
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.listener import Listener
from charonia_runtime.wires.http2.stream import Handler
from tests.support.http2 import TRAILERS, data_frame, headers_frame

CALL = headers_frame(1, flags=4) + data_frame(1, b"hello", 1)
LAST_FRAME = frame_header(len(TRAILERS), 1, 5, 1) + TRAILERS
"""What ends the answer of stream 1."""
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open = Callable[..., Awaitable[Ends]]


@asynccontextmanager
async def serving(
    handler: Handler, limits: Limits | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Listener, Open]]:
    """A started listener, and what opens connections to it."""
    listener = Listener(handler, limits or Limits())
    bound = bind("127.0.0.1", 0)
    place = bound.getsockname()
    writers = []

    async def connect(**options: object) -> Ends:
        reader, writer = await asyncio.open_connection(*place, **options)  # type: ignore[arg-type]
        writers.append(writer)
        return reader, writer

    await listener.start(bound, context)
    try:
        yield listener, connect
    finally:
        for writer in writers:
            writer.close()
        await listener.stop(0)
