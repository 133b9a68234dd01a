"""
The one error tree. Each class carries one of Triton's eight neutral codes; each frontend maps codes to statuses in
one table.

    InferenceError
    ├── UnknownError         "Unknown"
    ├── InternalError        "Internal"
    ├── NotFoundError        "Not found"
    ├── InvalidArgumentError "Invalid argument"
    ├── UnavailableError     "Unavailable"
    ├── UnsupportedError     "Unsupported"
    ├── AlreadyExistsError   "Already exists"
    └── CancelledError       "Cancelled"
"""

from enum import Enum
from typing import ClassVar, TypeVar


class ErrorCode(Enum):
    """Triton's error codes; the value is the word that logs and the repository index print before the message."""

    UNKNOWN = "Unknown"
    INTERNAL = "Internal"
    NOT_FOUND = "Not found"
    INVALID_ARGUMENT = "Invalid argument"
    UNAVAILABLE = "Unavailable"
    UNSUPPORTED = "Unsupported"
    ALREADY_EXISTS = "Already exists"
    CANCELLED = "Cancelled"


class InferenceError(Exception):
    """
    Whatever goes wrong on behalf of a client. `message` reaches the client unchanged.

    `traceback_text` is for the log alone: the traceback of what a model raised, as text.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN
    traceback_text: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def reason(self) -> str:
        """`<Code>: <message>`, as the repository index and the logs print it."""
        return f"{self.code.value}: {self.message}"

    def with_prefix(self, prefix: str) -> "InferenceError":
        """The same error with text before its message."""
        error = type(self)(prefix + self.message)
        error.traceback_text = self.traceback_text
        return error


class UnknownError(InferenceError):
    code = ErrorCode.UNKNOWN


class InternalError(InferenceError):
    code = ErrorCode.INTERNAL


class NotFoundError(InferenceError):
    code = ErrorCode.NOT_FOUND


class InvalidArgumentError(InferenceError):
    code = ErrorCode.INVALID_ARGUMENT


class UnavailableError(InferenceError):
    code = ErrorCode.UNAVAILABLE


class UnsupportedError(InferenceError):
    code = ErrorCode.UNSUPPORTED


class AlreadyExistsError(InferenceError):
    code = ErrorCode.ALREADY_EXISTS


class CancelledError(InferenceError):
    code = ErrorCode.CANCELLED


Error = TypeVar("Error", bound=BaseException)


def without_traceback(error: Error) -> Error:
    """
    The same error, fit to be kept: without its traceback and its causes.

    The frames of a traceback hold their variables, whole request bodies among them. One of these variables often leads
    to the error again, and such a cycle stays until the garbage collector looks, which is hardly ever while requests
    are served.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


ERROR_CLASSES: dict[ErrorCode, type[InferenceError]] = {
    cls.code: cls
    for cls in (
        UnknownError,
        InternalError,
        NotFoundError,
        InvalidArgumentError,
        UnavailableError,
        UnsupportedError,
        AlreadyExistsError,
        CancelledError,
    )
}
"""Code → class, for those who receive a code from elsewhere (another process, a model)."""
