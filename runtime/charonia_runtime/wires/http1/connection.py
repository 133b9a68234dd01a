"""One client connection: requests in, one exchange at a time, answers out."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, MutableMapping, MutableSet, Sequence
from typing import Final, Protocol

from typing_extensions import override

from charonia_runtime.wires.addresses import peer
from charonia_runtime.wires.descriptors import RESERVE_SECONDS, Supply, close_longest_idle, supply_at
from charonia_runtime.wires.http1.answer_writer import AnswerWriter, Buffer
from charonia_runtime.wires.http1.half_closed import HalfClosedWatch
from charonia_runtime.wires.http1.heads import KnownHeads
from charonia_runtime.wires.http1.limits import LINGER_SECONDS, Limits
from charonia_runtime.wires.http1.messages import (
    Exchange,
    HandlerFailureError,
    RefusedRequestError,
    Request,
    SlowRequestError,
    connection_field,
    status_line,
    whole_refusal,
)
from charonia_runtime.wires.http1.reader import RequestReader
from charonia_runtime.wires.http1.stall_watch import StallWatch

logger = logging.getLogger(__name__)

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Handler(Protocol):
    """Where requests go: what a frontend brings."""

    tasks: set[asyncio.Task[None]]
    """What runs on behalf of requests, also when their clients are gone; a stop waits for it."""
    answered: MutableMapping[int | str, int]
    """How often each status was answered; connections count."""

    def begin(self, connection: "Connection", request: Request) -> None:
        """Answer the request, now or later. What it raises is logged and answered as HandlerFailureError."""

    def refuse(self, connection: "Connection", refusal: RefusedRequestError) -> tuple[int, bytes, bytes]:
        """Return status, header lines and body of the answer to a request that the connection refuses itself."""


class Connection(asyncio.BufferedProtocol):
    """
    Hands each request to the handler once the one before is answered, and writes the answers.

    `exchange` is set by the handler; it is told when the client goes away, and None as soon as its answer is complete.
    A request begins only when the client keeps up with the answers before it; until then nothing more is read.
    Answers go out through `answer`, or through `begin_stream`, `send_chunk` and `end_stream`. `lost` is done when the
    connection is gone.
    """

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        read_buffer: memoryview,
        heads: KnownHeads,
        connections: MutableSet["Connection"],
    ) -> None:
        self._handler = handler
        self._answered = handler.answered
        self._limits = limits
        self._read_buffer = read_buffer
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._reader = RequestReader(limits.body_bytes, self._deliver, self._agree, heads)
        self._vacancy: memoryview | None = None
        self._transport: asyncio.Transport | None = None
        self._writer = AnswerWriter(self._loop)
        self._pipeline: deque[Request | RefusedRequestError] = deque()
        self._request: Request | None = None
        self._waiting_writers: list[Callable[[], None]] = []
        self._is_writable = True
        self._is_closing = False
        self._has_served = False
        self._is_retiring = False
        self._is_half_closed = False
        self._has_begun_stream = False
        self._stall_watch = StallWatch(limits)
        self._last_activity = self._loop.time()
        self.exchange: Exchange | None = None

    # --- the transport's side ---

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # sockets have full transports
        self._writer.connected(transport)  # type: ignore[arg-type]
        supply = supply_at(transport)
        if supply is not Supply.AMPLE:
            self._save_descriptors(supply)
        self._connections.add(self)

    def _save_descriptors(self, supply: Supply) -> None:
        """Make room: by others that wait for their clients, and by this one soon."""
        made_room = close_longest_idle(other for other in self._connections if other.is_waiting_for_client)
        if supply is Supply.SPENT and not made_room and not self._limits.uses_last_descriptors:
            self.abort()
        else:
            self.retire()
            self._loop.call_later(RESERVE_SECONDS, self.shutdown)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._writer.lost()
        self._connections.discard(self)
        if not self.lost.done():
            self.lost.set_result(None)
        self._pipeline.clear()
        exchange, self.exchange = self.exchange, None
        try:
            if exchange is not None:
                exchange.disconnected()
        except Exception:
            logger.exception("unexpected error while a request was cancelled")
        self.resume_writing()

    @override
    def eof_received(self) -> bool:
        """
        Keep the connection for what the client asked before it closed its half, else close.

        Triton answers such clients as well. TLS knows no half.
        """
        transport = self._transport
        is_owed = self._request is not None or bool(self._pipeline)
        if transport is None or self._is_closing or not is_owed or transport.get_extra_info("ssl_object") is not None:
            return False
        if not self._is_half_closed:
            self._is_half_closed = True
            self.retire()
            HalfClosedWatch(self._loop, transport, self._continue, lambda: self.is_waiting_for_client)
        return True

    @override
    def pause_writing(self) -> None:
        self._is_writable = False

    @override
    def resume_writing(self) -> None:
        self._is_writable = True
        waiting, self._waiting_writers = self._waiting_writers, []
        for resume in waiting:
            resume()
        if self._pipeline:
            self._loop.call_soon(self._begin_next)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        vacancy = self._vacancy = self._reader.vacancy()
        return self._read_buffer if vacancy is None else vacancy

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._last_activity = self._loop.time()
        if self._is_closing:
            return
        if self._vacancy is not None:
            self._reader.received(nbytes)
            return
        try:
            self._reader.feed(self._read_buffer[:nbytes])
        except RefusedRequestError as refusal:
            refusal.__traceback__ = None
            self._refuse_in_turn(refusal)

    # --- requests ---

    def _deliver(self, request: Request) -> None:
        if self._request is None and not self._pipeline and self._is_writable:
            self._begin(request)
        else:
            self._wait_in_line(request)

    def _wait_in_line(self, request: Request | RefusedRequestError) -> None:
        self._pipeline.append(request)
        if self._transport is not None:
            self._transport.pause_reading()

    def _begin(self, request: Request) -> None:
        if self._is_closing:
            return
        self._request = request
        self._has_served = True
        if self._is_retiring and not self._pipeline:
            request.keep_alive = False
        try:
            self._handler.begin(self, request)
        except Exception:
            logger.exception("unexpected error while answering a request")
            self._fail(request)

    def _begin_next(self) -> None:
        if self._is_closing or self._request is not None or not self._pipeline or not self._is_writable:
            return
        request = self._pipeline.popleft()
        if isinstance(request, RefusedRequestError):
            self._refuse(request)
            return
        if not self._pipeline and self._transport is not None:
            self._transport.resume_reading()
        self._begin(request)

    def _fail(self, request: Request) -> None:
        """Answer a request whose handler raised; close where its answer has begun, or the request is not known."""
        if self._is_closing or self._request is not request:
            return
        self.exchange = None
        if self._has_begun_stream:
            self.abort()
        else:
            status, fields, body = self._handler.refuse(self, HandlerFailureError())
            self.answer(status, fields, [body])

    def _continue(self) -> None:
        """Send something that clients pass over (RFC 9110 section 15.2), where that is possible."""
        request = self._request
        if request is not None and not self._has_begun_stream and request.head.version == "1.1":
            self._writer.write(_CONTINUE)

    def _agree(self) -> None:
        if self._request is None:
            self._writer.write(_CONTINUE)

    # --- answers ---

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` when the client keeps up with what is written, or is gone (`core.request.ResponseFlow`)."""
        if self._is_writable:
            resume()
        else:
            self._waiting_writers.append(resume)

    @property
    def client(self) -> str:
        """The client's address, `host:port`; empty when it is not known any more."""
        return peer(self._transport)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the system has not taken yet."""
        return self._writer.unsent_bytes

    def answer(self, status: int, fields: bytes, parts: Sequence[Buffer] = ()) -> None:
        """Answer the current request: `fields` are header lines, `parts` make the body. Large parts are not copied."""
        request = self._request
        if request is None or self._is_closing:
            return
        self._answered[status] += 1
        size = 0
        for part in parts:
            size += part.nbytes if isinstance(part, memoryview) else len(part)
        head = b"%b%bContent-Length: %d\r\n%b\r\n" % (
            status_line(request.head.version, status), fields, size, connection_field(request),
        )  # fmt: skip
        if request.head.method == b"HEAD":
            self._writer.write(head)
        else:
            self._writer.write_answer(head, parts, size)
        self._finish_exchange(request)

    def begin_stream(self, status: int, fields: bytes) -> None:
        """Begin an answer of unknown length: chunked, or until the connection closes where the client is too old."""
        request = self._request
        if request is None or self._is_closing:
            return
        self._answered[status] += 1
        self._has_begun_stream = True
        framing = b"Transfer-Encoding: chunked\r\n"
        if request.head.version == "1.0":
            framing = b""
            request.keep_alive = False
        self._writer.stream(
            b"%b%b%b%b\r\n" % (status_line(request.head.version, status), fields, framing, connection_field(request))
        )

    def send_chunk(self, data: bytes) -> None:
        """Send a part of the answer that was begun: with those of this turn of the loop, when it is over."""
        request = self._request
        if data and request is not None and not self._is_closing:
            self._writer.stream(data if request.head.version == "1.0" else b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        """Complete the answer that was begun."""
        request = self._request
        if request is None or self._is_closing:
            return
        if request.head.version != "1.0":
            self._writer.stream(b"0\r\n\r\n")
        self._writer.flush()
        self._has_begun_stream = False
        self._finish_exchange(request)

    def _finish_exchange(self, request: Request) -> None:
        self.exchange = None
        self._request = None
        self._last_activity = self._loop.time()
        if not request.keep_alive:
            self.close()
        elif self._pipeline:
            self._loop.call_soon(self._begin_next)

    # --- endings ---

    def shutdown(self) -> None:
        """Close as soon as every request that came is answered; the server calls it when it stops."""
        if self.is_waiting_for_client:
            self.close()
        else:
            self.retire()

    def retire(self) -> None:
        """Close with the next answer that no pipelined request waits behind, and tell the client so in it."""
        self._is_retiring = True
        if self._request is not None and not self._pipeline:
            self._request.keep_alive = False

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._is_closing = True
        self._writer.lost()
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_waiting_for_client(self) -> bool:
        """Whether the client may ask and is owed nothing: it has asked nothing, or not everything yet."""
        return self._request is None and not self._pipeline and not self._is_closing

    @property
    def last_activity(self) -> float:
        """When something was read or an answer was complete, a time of the event loop."""
        return self._last_activity

    def close_if_stalled(self, now: float) -> None:
        """Close if the client takes too long to send its request, to ask the next one, or to take its answer."""
        watch, transport = self._stall_watch, self._transport
        if transport is None:
            return
        if watch.ends_writing(now, transport.get_write_buffer_size()):
            logger.debug("closed an HTTP connection: its client takes nothing of an answer")
            self.abort()
        elif not self.is_waiting_for_client:
            return
        elif self._reader.is_idle:
            if watch.ends_idling(now, self._last_activity, has_served=self._has_served):
                self.close()
        elif watch.ends_reading(
            now, self._last_activity, self._reader.delivered, self._reader.received_bytes,
            is_in_head=self._reader.is_in_head,
        ):  # fmt: skip
            self._refuse(SlowRequestError("the request took too long to arrive"))

    def close(self) -> None:
        """Close as soon as what was written has left."""
        self._is_closing = True
        self._writer.flush()
        if self._transport is not None:
            self._transport.close()

    def _refuse_in_turn(self, refusal: RefusedRequestError) -> None:
        """Refuse a request behind which nothing can be read, after the answers that are owed."""
        if self.is_waiting_for_client and self._is_writable:
            self._refuse(refusal)
        elif not self._is_closing:
            self._wait_in_line(refusal)

    def _refuse(self, refusal: RefusedRequestError) -> None:
        """Answer a request that is not read to its end, and take what still comes of it: a reset loses answers."""
        if self._transport is None:
            return
        status, fields, body = self._handler.refuse(self, refusal)
        self._answered[status] += 1
        self._is_closing = True
        self._transport.resume_reading()
        self._writer.write(whole_refusal(status, fields, body))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(LINGER_SECONDS, self._transport.abort)
