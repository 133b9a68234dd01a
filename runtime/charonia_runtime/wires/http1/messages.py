"""HTTP messages: a request as it was read, the first line of its answer, and why one is not read to its end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

_REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Not Allowed",
    408: "Request Timeout", 500: "Internal Server Error", 501: "Not Implemented", 503: "Service Unavailable",
}  # fmt: skip
_STATUS_LINES = {
    (version, status): f"HTTP/{version} {status} {reason}\r\n".encode()
    for version in ("1.0", "1.1")
    for status, reason in _REASONS.items()
}


class Exchange(Protocol):
    """Answers the current request of a connection."""

    def disconnected(self) -> None:
        """The client is gone before the answer was complete."""


class RefusedRequestError(Exception):
    """A request that is answered with an error by the connection itself. Its text is for the client."""


class UnreadableRequestError(RefusedRequestError):
    """The bytes are no HTTP/1, or the head is over a limit."""


class UnsupportedCodingError(RefusedRequestError):
    """The body has a transfer coding other than `chunked` (RFC 9112 section 6.1)."""

    def __init__(self, codings: str) -> None:
        super().__init__(f"Transfer-Encoding is '{codings}', only 'chunked' is supported")


class SlowRequestError(RefusedRequestError):
    """The client takes too long to send its request."""


class HandlerFailureError(RefusedRequestError):
    """The handler raised where it must not: a defect of ours, which the log tells."""

    def __init__(self) -> None:
        super().__init__("unexpected error while answering the request")


class ExcessiveRequestError(RefusedRequestError):
    """The body is over a limit: it is not read to its end."""


class BodyTooLargeError(ExcessiveRequestError):
    """`byte_size` is the announced length, or what came so far of a body of unknown length; `limit` in bytes."""

    def __init__(self, byte_size: int, limit: int) -> None:
        super().__init__(f"a body of {byte_size} bytes, at most {limit} are read")
        self.byte_size = byte_size
        self.limit = limit


class TooManyChunksError(ExcessiveRequestError):
    """`limit` counts chunks that are not empty."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} chunks")
        self.limit = limit


@dataclass(slots=True)
class Head:
    """
    Everything of a request but its body. Shared by all requests with the same bytes, so never changed.

    `path` is as the client sent it, undecoded, without the query. `content_length` is 0 where the client names none.
    """

    method: bytes
    path: str
    version: str
    """`1.0` or `1.1`."""
    headers: Sequence[tuple[bytes, bytes]]
    """As sent, equal names included. What follows a chunked body (trailers) is not among them."""
    fields: Mapping[bytes, bytes]
    """Headers by their name in lower case; the first of equal ones."""
    keep_alive: bool
    content_length: int

    def field_text(self, name: str) -> str | None:
        """A header's value; None when it was not sent."""
        value = self.fields.get(name.lower().encode())
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def header_texts(self) -> Iterable[tuple[str, str]]:
        """Every header with the name as sent; of equal names, in whatever case, the first."""
        seen = set[bytes]()
        for name, value in self.headers:
            key = name.lower()
            if key not in seen:
                seen.add(key)
                yield name.decode("latin-1"), value.decode("utf-8", "surrogateescape")


class Request:
    """One request, complete. `path` and `keep_alive` are its head's, until a handler or the connection decides else."""

    __slots__ = ("body", "head", "keep_alive", "path")

    def __init__(self, head: Head, body: memoryview) -> None:
        self.head = head
        self.body = body
        self.path = head.path
        self.keep_alive = head.keep_alive


def status_line(version: str, status: int) -> bytes:
    """The first line of an answer, with Triton's reason phrases."""
    return _STATUS_LINES.get((version, status)) or f"HTTP/{version} {status} \r\n".encode()


def connection_field(request: Request) -> bytes:
    """The header line that says whether the connection goes on, where its version leaves that open."""
    if not request.keep_alive:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if request.head.version == "1.0" else b""


def whole_refusal(status: int, fields: bytes, body: bytes) -> bytes:
    """The bytes of an answer after which the connection closes; `fields` are header lines."""
    return b"%b%bContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (
        status_line("1.1", status), fields, len(body), body,
    )  # fmt: skip
