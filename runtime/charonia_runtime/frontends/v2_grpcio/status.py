"""How calls end badly: error codes → gRPC statuses, and the boundary that no exception crosses as itself."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio

from charonia_runtime.core.errors import ErrorCode, InferenceError, InternalError, UnavailableError
from charonia_runtime.protocols.v2_proto import text_of

logger = logging.getLogger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext
Handler = Callable[[Any, Context], Awaitable[Any]]
"""A call: the request's bytes → the response's, or for a stream grpc's request iterator → nothing."""

_STATUSES = {
    ErrorCode.UNKNOWN: grpc.StatusCode.UNKNOWN,
    ErrorCode.INTERNAL: grpc.StatusCode.INTERNAL,
    ErrorCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorCode.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    ErrorCode.UNSUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    ErrorCode.ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.CANCELLED: grpc.StatusCode.CANCELLED,
}

_TEXT_BYTES_AT_MOST = 7000
_BYTES_OF_A_CHARACTER_AT_MOST = 12


async def abort(context: Context, error: InferenceError) -> NoReturn:
    """End the call with an error's status and text."""
    await context.abort(_STATUSES[error.code], shortened(text_of(error.message)))
    raise AssertionError  # abort always raises


async def refuse_access(context: Context, reason: str) -> NoReturn:
    """End the call of a client that shows no valid access token."""
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
    raise AssertionError  # abort always raises


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


def guarded(handler: Handler) -> Handler:
    """The handler with its errors turned into statuses. What is no InferenceError is logged and not told."""

    async def handle(requests: Any, context: Context) -> Any:
        try:
            return await handler(requests, context)
        except InferenceError as error:
            await abort(context, error)
        except Exception as error:  # noqa: BLE001 the outermost boundary
            await abort(context, unexpected(error))

    return handle


def unexpected(error: Exception) -> InferenceError:
    """What a client hears of a defect of ours; the log hears the rest."""
    logger.error("unexpected error while answering a gRPC call", exc_info=error)
    return InternalError("internal error; see the server's log")


def shutting_down() -> InferenceError:
    return UnavailableError("GRPC server is shutting down and has stopped accepting new requests.")
