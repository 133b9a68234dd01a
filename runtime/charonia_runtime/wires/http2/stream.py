"""One exchange of a connection: a request that arrives, and its answer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from charonia_runtime.wires.http2.messages import RequestHead

if TYPE_CHECKING:
    from collections import deque

Buffer = bytes | memoryview
"""What answers are made of. A memoryview has items of one byte."""


class Receiver(Protocol):
    """The frontend's side of a stream; never raises. It hears nothing more once it has answered or reset the stream."""

    def data(self, piece: memoryview) -> None:
        """A piece of the body. It is valid only during the call: copy what you keep."""

    def ended(self) -> None:
        """The request is complete. What a client sends as trailers is dropped."""

    def paused(self) -> None:
        """Nothing of the request came for `Limits.pause_seconds`, and its end has not come. Told again and again."""

    def aborted(self, code: int) -> None:
        """Reset by the client, killed by a limit, or the connection is gone: nobody reads an answer."""


class Handler(Protocol):
    """Where requests go: what a frontend brings."""

    def begin(self, stream: "Stream") -> Receiver | None:
        """Take a request whose head has come; None if it is answered already. Never raises."""


class AnswerPath(Protocol):
    """Where a stream's answer goes: the connection's `outbox.Outbox`."""

    def answer(self, stream: "Stream", head: bytes, parts: Sequence[Buffer], trailers: bytes) -> None: ...

    def send_block(self, stream: "Stream", block: bytes, *, ends: bool) -> None: ...

    def send_data(self, stream: "Stream", parts: Sequence[Buffer]) -> None: ...

    def when_ready(self, stream: "Stream", resume: Callable[[], None]) -> None: ...


class RequestPath(Protocol):
    """Where a stream's request comes from: its `connection.Connection`."""

    client: str

    def replenish(self, stream: "Stream") -> None: ...

    def reset(self, stream: "Stream", code: int) -> None: ...


class Stream:
    """
    A request and its answer; made by the wire, used on the event loop's thread.

    The answer is one `respond`, or `send_head`, any number of `send_data`, and `send_trailers`. `is_open` is False once
    the stream is reset, lost or fully answered: sends are no-ops then.
    """

    __slots__ = (
        "_answer_path", "_request_path", "expected_bytes", "has_begun", "has_ended", "head", "id", "is_held", "is_open",
        "is_queued", "opened_at", "queue", "receive_window", "receiver", "resume", "send_window",
    )  # fmt: skip

    def __init__(self, stream_id: int, head: RequestHead, request_path: RequestPath, answer_path: AnswerPath) -> None:
        self._request_path = request_path
        self._answer_path = answer_path
        self.id = stream_id
        self.head = head
        self.receiver: Receiver | None = None
        self.is_open = True
        self.expected_bytes = head.content_length  # the wire's own, as are all below
        self.receive_window = 0
        self.send_window = 0
        self.opened_at = 0.0
        self.has_begun = False
        self.has_ended = False
        self.is_held = False
        self.queue: deque[Buffer] | None = None
        self.is_queued = False
        self.resume: Callable[[], None] | None = None

    @property
    def client(self) -> str:
        """The address of the client, `host:port`; empty where it is not known."""
        return self._request_path.client

    def respond(self, head: bytes, parts: Sequence[Buffer], trailers: bytes) -> None:
        """
        Send a whole answer: header block, body, trailer block. Large parts are not copied: they must stay as they are.

        Blocks come from `header_blocks.encode_block`.
        """
        if self.is_open:
            self.is_open = False
            self.receiver = None
            self._answer_path.answer(self, head, parts, trailers)

    def send_head(self, block: bytes) -> None:
        """Begin an answer."""
        if self.is_open:
            self._answer_path.send_block(self, block, ends=False)

    def send_data(self, parts: Sequence[Buffer]) -> None:
        """Send a piece of the body. Large parts are not copied: they must stay as they are."""
        if self.is_open:
            self._answer_path.send_data(self, parts)

    def send_trailers(self, block: bytes) -> None:
        """Complete the answer; the only block where no head was sent."""
        if self.is_open:
            self.is_open = False
            self.receiver = None
            self._answer_path.send_block(self, block, ends=True)

    def reset(self, code: int) -> None:
        """End the stream in the middle."""
        if self.is_open:
            self.is_open = False
            self.receiver = None
            self._request_path.reset(self, code)

    def when_ready(self, resume: Callable[[], None]) -> None:
        """
        Call `resume` when the client keeps up with what was sent, at once if it does or nobody waits for it.

        The system may still hold the last of it: no sign that parts may be changed.
        """
        self._answer_path.when_ready(self, resume)

    def hold(self) -> None:
        """Let the client send no more than its present window."""
        self.is_held = True

    def release(self) -> None:
        """Let the client go on."""
        self.is_held = False
        self._request_path.replenish(self)
