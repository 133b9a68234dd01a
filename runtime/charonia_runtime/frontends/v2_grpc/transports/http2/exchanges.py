"""Calls on streams of HTTP/2: `UnaryExchange` with one message each way, `StreamExchange` with any number."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from charonia_runtime.frontends.v2_grpc.calls import Buffer, Listener, Method, Parts
from charonia_runtime.frontends.v2_grpc.logged_call import CANCELLED
from charonia_runtime.frontends.v2_grpc.status import OK, Status, StatusCode, status_of, unexpected
from charonia_runtime.frontends.v2_grpc.transports.http2.blocks import HEAD, TRAILERS, refusal_block, trailers_block
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import (
    content_of,
    inflate,
    inflates_at_once,
    inflation,
)
from charonia_runtime.frontends.v2_grpc.transports.http2.errors import CallError
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX, PREFIX_BYTES, Assembler
from charonia_runtime.frontends.v2_grpc.transports.http2.heads import CallHead
from charonia_runtime.frontends.v2_grpc.transports.http2.outgoing import CompressedMessages
from charonia_runtime.wires.http2.errors import ENHANCE_YOUR_CALM
from charonia_runtime.wires.http2.stream import Stream

_DEADLINE_EXCEEDED: Final = Status(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
_OK_NAME: Final = StatusCode.OK.name
_TOO_SLOW: Final = Status(StatusCode.DEADLINE_EXCEEDED, "the request took too long to arrive")
_CUT_SHORT: Final = Status(StatusCode.INTERNAL, "the request ended within a message")


class Exchange:
    """
    What both kinds have in common: the answer, the deadline, the end. See `calls.Call` and `wires.http2`'s `Receiver`.

    Whoever ends it lets go of the listener, which holds its call: no cycle is left to the garbage collector.
    """

    __slots__ = (
        "_compressed", "_deadline", "_has_head", "_head", "_listener", "_method",
        "_stop_inflating", "_stream", "metadata",
    )  # fmt: skip

    def __init__(self, stream: Stream, head: CallHead, method: Method, level: str) -> None:
        self.metadata = head.metadata
        self._stream = stream
        self._head = head
        self._method = method
        self._listener: Listener | None = None
        self._has_head = False
        self._compressed: CompressedMessages | None = None
        if head.reply_encoding:
            self._compressed = CompressedMessages(stream, head.reply_encoding, level)
        self._stop_inflating: Callable[[], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        if head.timeout_seconds is not None:
            self._deadline = asyncio.get_running_loop().call_later(head.timeout_seconds, self._expire)

    @property
    def client(self) -> str:
        return self._stream.client

    # --- what the call is told to do ---

    def respond(self, parts: Parts) -> None:
        if self._compressed is not None or self._has_head:
            self.send(parts)
            self.end()
            return
        self._let_go()
        self._method.answered[_OK_NAME] += 1
        size = 0
        for part in parts:
            size += len(part)
        self._stream.respond(HEAD, (PREFIX.pack(0, size), *parts), TRAILERS)

    def send(self, parts: Parts) -> None:
        if self._compressed is not None:
            self._has_head = True
            self._compressed.send(parts)
            return
        if not self._has_head:
            self._has_head = True
            self._stream.send_head(HEAD)
        self._stream.send_data((PREFIX.pack(0, sum(map(len, parts))), *parts))

    def end(self, status: Status = OK) -> None:
        self._let_go()
        self._method.answered[status.code.name] += 1
        if not self._has_head:
            self._stream.send_trailers(refusal_block(status))
        elif self._compressed is not None:
            self._compressed.end(status)
        else:
            self._stream.send_trailers(trailers_block(status))

    def drop(self) -> None:
        self._let_go()
        self._stream.reset(ENHANCE_YOUR_CALM)
        if self._compressed is not None:
            self._compressed.drop()

    def when_ready(self, resume: Callable[[], None]) -> None:
        if self._compressed is not None:
            self._compressed.when_ready(resume)
        else:
            self._stream.when_ready(resume)

    def hold(self) -> None:
        self._stream.hold()

    def release(self) -> None:
        self._stream.release()

    # --- what the wire tells ---

    def aborted(self, _code: int) -> None:
        listener = self._listener
        self._let_go()
        self._method.answered[StatusCode.CANCELLED.name] += 1
        if self._compressed is not None:
            self._compressed.drop()
        self._abort(listener, CANCELLED)

    # --- within ---

    @staticmethod
    def _abort(listener: Listener | None, status: Status) -> None:
        if listener is None:
            return
        try:
            listener.aborted(status)
        except Exception as error:  # noqa: BLE001 the call is over: nobody is told but the log
            unexpected(error)

    def _expire(self) -> None:
        self._refuse(_DEADLINE_EXCEEDED)

    def _refuse(self, status: Status) -> None:
        """End a call whose client broke the rules, or whose listener failed."""
        listener = self._listener
        if listener is None and self._stream.is_open:
            self._method.tell_refusal(status, self.client)
        self.end(status)
        self._abort(listener, status)

    def _let_go(self) -> None:
        self._listener = None
        if self._stop_inflating is not None:
            self._stop_inflating()
            self._stop_inflating = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _inflate(self, message: Buffer) -> Buffer:
        """The content of a compressed message that is small. Raises CallError."""
        return inflate(message, self._encoding())

    def _inflate_large(self, message: Buffer, go_on: Callable[[Buffer], None]) -> None:
        """Decompress a message in another thread, then go on with it. Raises CallError."""
        encoding = self._encoding()
        inflating = inflation(message, encoding)
        self._stop_inflating = inflating.cancel

        def inflated() -> None:
            self._stop_inflating = None
            try:
                content = content_of(inflating, message, encoding)
                if self._stream.is_open:
                    go_on(content)
            except Exception as error:  # noqa: BLE001 the thread's outermost boundary
                self._fail(error)

        inflating.start(inflated, self._fail)

    def _encoding(self) -> str:
        encoding = self._head.encoding
        if not encoding:
            raise CallError(StatusCode.INTERNAL, "a message is compressed but grpc-encoding does not say how")
        return encoding

    def _fail(self, error: Exception) -> None:
        self._stop_inflating = None
        self._refuse(error.status if isinstance(error, CallError) else status_of(error))


class UnaryExchange(Exchange):
    """A call with one message each way. Its listener is opened when the message is there."""

    __slots__ = ("_assembler", "_flag", "_message")

    def __init__(self, stream: Stream, head: CallHead, method: Method, level: str) -> None:
        super().__init__(stream, head, method, level)
        self._message: Buffer | None = None
        self._flag = 0
        self._assembler: Assembler | None = None

    def data(self, piece: memoryview) -> None:
        if self._assembler is not None and self._assembler.absorb(piece):
            return
        if not self._stream.is_open:
            return
        if self._assembler is None and self._message is None and len(piece) >= PREFIX_BYTES:
            flag, length = PREFIX.unpack_from(piece)
            if length == len(piece) - PREFIX_BYTES and flag <= 1:
                self._flag, self._message = flag, bytes(piece[PREFIX_BYTES:])
                return
        self._assemble(piece)

    def ended(self) -> None:
        if not self._stream.is_open:
            return
        message, self._message = self._message, None
        if message is None or (self._assembler is not None and not self._assembler.is_between_messages):
            self._refuse(_CUT_SHORT if self._assembler is not None else _count_violated(0))
        elif not self._flag:
            self._deliver(message)
        else:
            try:
                if inflates_at_once(message):
                    self._deliver(self._inflate(message))
                else:
                    self._inflate_large(message, self._deliver)
            except CallError as error:
                self._refuse(error.status)

    def _assemble(self, piece: memoryview) -> None:
        if self._assembler is None:
            self._assembler = Assembler()
        try:
            for flag, message in self._assembler.feed(piece):
                if self._message is not None:
                    self._refuse(_count_violated(2))
                    return
                self._flag, self._message = flag, message
        except CallError as error:
            self._refuse(error.status)

    def paused(self) -> None:
        self._refuse(_TOO_SLOW)

    def _deliver(self, message: Buffer) -> None:
        try:
            listener = self._listener = self._method.open(self)
            if listener is not None:
                listener.message(message)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._refuse(status_of(error))


class StreamExchange(Exchange):
    """A call with any number of messages. Messages that come while it is held wait: at most a window of them."""

    __slots__ = ("_arrived", "_assembler", "_has_ended", "_is_busy", "_is_held", "_is_opening", "refusal")

    def __init__(self, stream: Stream, head: CallHead, method: Method, level: str) -> None:
        super().__init__(stream, head, method, level)
        self._assembler = Assembler()
        self._arrived: deque[tuple[int, Buffer]] = deque()
        self._is_held = False
        self._is_busy = False
        """Whether a message is being delivered, or decompressed."""
        self._has_ended = False
        self.refusal: Status | None = None
        """How its method ended it at once; nothing has been sent of that."""
        self._is_opening = True
        self._listener = method.open(self)
        self._is_opening = False

    @override
    def end(self, status: Status = OK) -> None:
        if self._is_opening:
            self.refusal = status
            self._let_go()
        else:
            super().end(status)

    @override
    def hold(self) -> None:
        self._is_held = True
        super().hold()

    @override
    def release(self) -> None:
        self._is_held = False
        super().release()
        self._deliver()

    def data(self, piece: memoryview) -> None:
        if self._listener is None or self._assembler.absorb(piece):
            return
        try:
            for arrived in self._assembler.feed(piece):
                self._arrived.append(arrived)
                self._deliver()
        except CallError as error:
            self._refuse(error.status)

    def ended(self) -> None:
        self._has_ended = True
        self._deliver()

    def _deliver(self) -> None:
        """Hand on what has arrived, as far as the listener takes it now."""
        try:
            while self._arrived and not self._is_held and not self._is_busy:
                flag, message = self._arrived.popleft()
                self._is_busy = True
                if not flag:
                    self._hand_over(message)
                elif inflates_at_once(message):
                    self._hand_over(self._inflate(message))
                else:
                    self._inflate_large(message, self._hand_on)
        except CallError as error:
            self._refuse(error.status)
        if self._has_ended and not self._arrived and not self._is_busy and not self._is_held:
            self._half_close()

    def paused(self) -> None:
        """Nothing: a client may wait with its next message as long as it likes."""

    def _hand_over(self, message: Buffer) -> None:
        try:
            if self._listener is not None:
                self._listener.message(message)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._refuse(status_of(error))
        self._is_busy = False

    def _hand_on(self, message: Buffer) -> None:
        """The same for a message that was decompressed meanwhile."""
        self._hand_over(message)
        self._deliver()

    def _half_close(self) -> None:
        self._has_ended = False
        if self._listener is None:
            return
        if self._assembler.is_between_messages:
            self._listener.half_closed()
        else:
            self._refuse(_CUT_SHORT)


def _count_violated(count: int) -> Status:
    return Status(StatusCode.UNIMPLEMENTED, f"expected one message, got {count or 'none'}")
