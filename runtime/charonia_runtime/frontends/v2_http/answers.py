"""What the answers of REST v2 have in common: content types, the status of each error, bodies of refusals."""

from charonia_runtime.core.errors import ErrorCode, InferenceError
from charonia_runtime.protocols.v2_documents import render_error
from charonia_runtime.wires.http1.messages import (
    BodyTooLargeError,
    HandlerFailureError,
    RefusedRequestError,
    SlowRequestError,
    TooManyChunksError,
    UnsupportedCodingError,
)

JSON = b"Content-Type: application/json\r\n"
TEXT = b"Content-Type: text/plain\r\n"
CHALLENGE = b"WWW-Authenticate: Bearer\r\n"
"""What an answer of status 401 says about how to do better."""
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
"""The status of each error."""

_REFUSAL_STATUSES: dict[type[RefusedRequestError], int] = {
    HandlerFailureError: 500,
    SlowRequestError: 408,
    UnsupportedCodingError: 501,
}
"""The status of refusals that are no 400."""

METHOD_NOT_ALLOWED = render_error("Method Not Allowed")
NOT_FOUND = render_error("Not Found")


def error_answer(error: InferenceError) -> tuple[int, bytes]:
    """Status and body of a refusal."""
    return STATUSES[error.code], render_error(error.message)


def refusal_answer(refusal: RefusedRequestError) -> tuple[int, bytes]:
    """Status and body of the answer to a request that its connection refuses."""
    match refusal:
        case BodyTooLargeError():
            text = (
                f"request body size of {refusal.byte_size} bytes exceeds the maximum allowed input size of "
                f"{refusal.limit} bytes. Use --http-max-input-size to increase the limit."
            )
        case TooManyChunksError():
            text = (
                f"Chunked request body exceeds maximum of {refusal.limit} non-empty chunks. Send fewer or larger "
                "HTTP chunks."
            )
        case _:
            text = str(refusal)
    return _REFUSAL_STATUSES.get(type(refusal), 400), render_error(text)
