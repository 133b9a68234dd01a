"""How calls end: gRPC's statuses, and what becomes of errors."""

import logging
from enum import IntEnum
from typing import Final, NamedTuple

from charonia_runtime.core.errors import ErrorCode, InferenceError, InternalError, UnavailableError
from charonia_runtime.core.texts import utf8_text

logger = logging.getLogger(__name__)


class StatusCode(IntEnum):
    """gRPC's codes, as they are written on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Status(NamedTuple):
    """How a call ended, with a text for its client."""

    code: StatusCode
    text: str = ""


OK: Final = Status(StatusCode.OK)

_CODES: Final = {
    ErrorCode.UNKNOWN: StatusCode.UNKNOWN,
    ErrorCode.INTERNAL: StatusCode.INTERNAL,
    ErrorCode.NOT_FOUND: StatusCode.NOT_FOUND,
    ErrorCode.INVALID_ARGUMENT: StatusCode.INVALID_ARGUMENT,
    ErrorCode.UNAVAILABLE: StatusCode.UNAVAILABLE,
    ErrorCode.UNSUPPORTED: StatusCode.UNIMPLEMENTED,
    ErrorCode.ALREADY_EXISTS: StatusCode.ALREADY_EXISTS,
    ErrorCode.CANCELLED: StatusCode.CANCELLED,
}

_TEXT_BYTES_AT_MOST: Final = 7000
_BYTES_OF_A_CHARACTER_AT_MOST: Final = 12


def status_of(error: Exception) -> Status:
    """The status that tells a client of an error. What is no InferenceError is logged and not told."""
    known = error if isinstance(error, InferenceError) else unexpected(error)
    return Status(_CODES[known.code], shortened(utf8_text(known.message)))


def shortened(text: str) -> str:
    """
    The beginning of a text, as much as fits into a status.

    Texts travel percent-encoded in the trailers, of which clients accept 8 KiB; with more of them they would report
    RESOURCE_EXHAUSTED instead of the error.
    """
    if len(text) * _BYTES_OF_A_CHARACTER_AT_MOST <= _TEXT_BYTES_AT_MOST:
        return text
    used = 0
    for index, character in enumerate(text):
        plain = " " <= character <= "~" and character != "%"
        used += 1 if plain else 3 * len(character.encode())
        if used > _TEXT_BYTES_AT_MOST:
            return text[:index] + "…"
    return text


def unexpected(error: Exception) -> InferenceError:
    """What a client hears of a defect of ours; the log hears the rest."""
    logger.error("unexpected error while answering a gRPC call", exc_info=error)
    return InternalError("internal error; see the server's log")


def shutting_down() -> InferenceError:
    """What new requests hear once the listener stops."""
    return UnavailableError("GRPC server is shutting down and has stopped accepting new requests.")
