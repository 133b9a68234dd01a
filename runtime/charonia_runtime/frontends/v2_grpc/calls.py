"""
The call protocol: what calls and the transports that carry them say to each other, whatever HTTP/2 lies below.

Everything happens on the event loop's thread, by callbacks: a call whose answer is at hand is answered in the very call
chain that read its message. Neither side raises into the other.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from charonia_runtime.core.answers import StatusCounts
from charonia_runtime.frontends.v2_grpc.metadata import Metadata
from charonia_runtime.frontends.v2_grpc.status import OK, Status

Buffer: TypeAlias = bytes | memoryview
Parts: TypeAlias = Sequence[Buffer]
"""A message to send, in pieces, so that large tensors need not be copied. Nobody changes them any more."""


class Call(Protocol):
    """One call: a transport's side of it. Once it ended, or its client is gone, what is sent is dropped."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def client(self) -> str:
        """The address of the client, `host:port`; empty where it is not known."""

    def respond(self, parts: Parts) -> None:
        """Send the only message and end the call well."""

    def send(self, parts: Parts) -> None:
        """Send one of any number of messages."""

    def end(self, status: Status = OK) -> None:
        """End the call behind what was sent."""

    def drop(self) -> None:
        """End the call at once for its client's fault (RESOURCE_EXHAUSTED); what has not left is thrown away."""

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` once what was sent before has left, at once if it has or if the call is over. One at a time."""

    def hold(self) -> None:
        """Give the listener no further message, and make the client wait, until `release`."""

    def release(self) -> None:
        """Go on after `hold`."""


class Listener(Protocol):
    """The server's side of one call."""

    def message(self, data: Buffer) -> None:
        """A message of the client, decompressed; it is the listener's. A unary call has exactly one."""

    def half_closed(self) -> None:
        """The client sends no more messages. Not told to unary calls."""

    def aborted(self, status: Status) -> None:
        """The client cancelled, its deadline passed, or it is gone: nothing more comes and nothing more arrives."""


@dataclass(frozen=True, slots=True)
class Method:
    """What a path leads to."""

    open: Callable[[Call], Listener | None]
    """The listener of a new call; None when it ended the call at once."""
    is_unary: bool = True
    """Whether the client sends one message and gets one: transports see to the former, listeners to the latter."""
    refusal: Callable[[Metadata], Status | None] | None = None
    """Why a client that sent this metadata is refused before its messages are read; None for clients to serve."""
    answered: StatusCounts = field(default_factory=lambda: defaultdict(int))
    """How often calls ended with each status, by its name; transports count."""
    tell_refusal: Callable[[Status, str], None] = lambda _status, _client: None
    """Told by transports of calls that end before they are opened, with the address of the client."""


class Methods(Protocol):
    """What a transport serves."""

    def find(self, path: str) -> Method | None:
        """The method at `/<service>/<name>`; None when there is none."""

    def tell_unknown(self, path: str, status: Status, client: str) -> None:
        """A client asked for what is no method."""
