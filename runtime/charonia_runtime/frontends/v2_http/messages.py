"""HTTP messages: a request as it was read, the head of an answer as it is written."""

from collections.abc import Iterable
from dataclasses import dataclass

from charonia_runtime.core.errors import ErrorCode, InferenceError
from charonia_runtime.protocols.v2_documents import render_error

JSON = b"Content-Type: application/json\r\n"
TEXT = b"Content-Type: text/plain\r\n"
EVENTS = b"Content-Type: text/event-stream; charset=utf-8\r\n"

STATUSES = {
    ErrorCode.UNKNOWN: 400,
    ErrorCode.INTERNAL: 500,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.UNSUPPORTED: 501,
    ErrorCode.ALREADY_EXISTS: 400,
    ErrorCode.CANCELLED: 400,
}
"""The status of each error (protocol-http §8)."""

METHOD_NOT_ALLOWED = render_error("Method Not Allowed")
NOT_FOUND = render_error("Not Found")

_REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Not Allowed",
    500: "Internal Server Error", 501: "Not Implemented", 503: "Service Unavailable",
}  # fmt: skip
_STATUS_LINES = {
    (version, status): f"HTTP/{version} {status} {reason}\r\n".encode()
    for version in ("1.0", "1.1")
    for status, reason in _REASONS.items()
}


@dataclass(slots=True)
class Request:
    """One request, complete. `path` is as the client sent it, undecoded, without the query."""

    method: bytes
    path: str
    version: str
    """`1.0` or `1.1`."""
    headers: list[tuple[bytes, bytes]]
    fields: dict[bytes, bytes]
    """Headers by their name in lower case; the first of equal ones."""
    keep_alive: bool
    body: memoryview

    def field_text(self, name: str) -> str | None:
        """A header's value; None when it was not sent."""
        value = self.fields.get(name.lower().encode())
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def header_texts(self) -> Iterable[tuple[str, str]]:
        """All headers as sent."""
        for name, value in self.headers:
            yield name.decode("latin-1"), value.decode("utf-8", "surrogateescape")


def status_line(version: str, status: int) -> bytes:
    """The first line of an answer, with Triton's reason phrases."""
    return _STATUS_LINES.get((version, status)) or f"HTTP/{version} {status} \r\n".encode()


def error_answer(error: InferenceError) -> tuple[int, bytes]:
    """Status and body of a refusal."""
    return STATUSES[error.code], render_error(error.message)
