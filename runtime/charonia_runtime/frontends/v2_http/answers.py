"""What the answers of REST v2 have in common: content types, the status of each error, bodies of refusals."""

from charonia_runtime.core.errors import ErrorCode, InferenceError, InvalidArgumentError
from charonia_runtime.protocols.v2_documents import render_error
from charonia_runtime.wires.http1.messages import BodyTooLargeError, ExcessiveRequestError, TooManyChunksError

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

METHOD_NOT_ALLOWED = render_error("Method Not Allowed")
NOT_FOUND = render_error("Not Found")


def error_answer(error: InferenceError) -> tuple[int, bytes]:
    """Status and body of a refusal."""
    return STATUSES[error.code], render_error(error.message)


def excess_error(excess: ExcessiveRequestError) -> InferenceError:
    """What a client is told whose body is over a limit."""
    match excess:
        case BodyTooLargeError():
            return InvalidArgumentError(
                f"request body size of {excess.byte_size} bytes exceeds the maximum allowed input size of "
                f"{excess.limit} bytes. Use --http-max-input-size to increase the limit."
            )
        case TooManyChunksError():
            return InvalidArgumentError(
                f"Chunked request body exceeds maximum of {excess.limit} non-empty chunks. Send fewer or larger "
                "HTTP chunks."
            )
        case _:
            return InvalidArgumentError(f"the request is too large: {excess}")
