"""The exceptions of `triton_python_backend_utils`, and the texts that clients get of any exception."""

import os
import traceback
from enum import Enum, IntEnum
from pathlib import Path
from types import FrameType
from typing import Any

from charonia_runtime.core.errors import ErrorCode
from charonia_runtime.stub.arguments import member, text

_MOST_CHARACTERS = 1 << 20
"""The longest text of an exception that is passed on."""
_MOST_TRACEBACK_CHARACTERS = 1 << 15
_OWN_FOLDER = str(Path(__file__).resolve().parent) + os.sep


class TritonModelException(Exception):  # noqa: N818  # Triton's name
    """Raised by this module's functions; models raise it too."""


class TritonError:
    """An error that a model answers a request with. Not an exception."""

    class __ErrorCode(IntEnum):
        UNKNOWN = 0
        INTERNAL = 1
        NOT_FOUND = 2
        INVALID_ARG = 3
        UNAVAILABLE = 4
        UNSUPPORTED = 5
        ALREADY_EXISTS = 6
        CANCELLED = 7

        __str__ = Enum.__str__

    UNKNOWN = __ErrorCode.UNKNOWN
    INTERNAL = __ErrorCode.INTERNAL
    NOT_FOUND = __ErrorCode.NOT_FOUND
    INVALID_ARG = __ErrorCode.INVALID_ARG
    UNAVAILABLE = __ErrorCode.UNAVAILABLE
    UNSUPPORTED = __ErrorCode.UNSUPPORTED
    ALREADY_EXISTS = __ErrorCode.ALREADY_EXISTS
    CANCELLED = __ErrorCode.CANCELLED

    __slots__ = ("_code", "_message")

    def __init__(self, message: Any, code: Any = INTERNAL) -> None:
        try:
            self._message = text(message)
            self._code = member(code, type(TritonError.INTERNAL))
        except TypeError:
            raise refuse(
                "c_python_backend_utils.TritonError(message: str, code: "
                "c_python_backend_utils.TritonError.__ErrorCode = <__ErrorCode.INTERNAL: 1>)",
                message, *([] if code is TritonError.INTERNAL else [code]),
            ) from None  # fmt: skip

    def message(self) -> str:
        return self._message

    def code(self) -> Any:
        return self._code


_CORE_NAMES = {"INVALID_ARG": "INVALID_ARGUMENT"}


def core_code(error: TritonError) -> ErrorCode:
    """The code of an error in the server's words."""
    name: str = error.code().name
    return ErrorCode[_CORE_NAMES.get(name, name)]


def from_core(message: str, code: ErrorCode) -> TritonError:
    """An error of the server as models see it."""
    return TritonError(
        message, getattr(TritonError, "INVALID_ARG" if code is ErrorCode.INVALID_ARGUMENT else code.name)
    )


def refuse(signature: str, *arguments: object, **named: object) -> TypeError:
    """The TypeError of a constructor that was called with the wrong arguments."""
    shown = ", ".join(map(repr, arguments))
    if named:
        shown += ("; " if shown else "") + "kwargs: " + ", ".join(f"{name}={value!r}" for name, value in named.items())
    return _mismatch("__init__(): incompatible constructor", signature, shown)


def refuse_call(function: str, signature: str, *arguments: object) -> TypeError:
    """The TypeError of a function that was called with the wrong arguments."""
    return _mismatch(f"{function}(): incompatible function", signature, ", ".join(map(repr, arguments)))


def _mismatch(what: str, signature: str, shown: str) -> TypeError:
    return TypeError(
        f"{what} arguments. The following argument types are supported:\n    1. {signature}\n\nInvoked with: {shown}"
    )


def describe(error: BaseException) -> str:
    """
    An exception as Triton shows it: type and text, then the frames of the model's code, innermost first.

    Our own frames, below the model's, are left out. An exception that fails to say what it is does not hide that there
    was one.
    """
    text, another = _text(error)
    described = _with_frames(text, error)
    if another is not None:
        described += f"\nMESSAGE UNAVAILABLE DUE TO EXCEPTION: {_with_frames(_text(another)[0], another)}"
    return described


def model_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, without our own frames around the model's; empty where no model's is there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        trace = trace.tb_next
    if trace is None:
        return ""
    try:
        lines = traceback.format_exception(type(error), error, trace)
    except BaseException:  # noqa: BLE001  # whatever the model's code raises while its exception is printed
        lines = ["Traceback (most recent call last):\n", *traceback.format_tb(trace)]
    return shorten("".join(lines).rstrip(), _MOST_TRACEBACK_CHARACTERS)


def shorten(text: str, most: int = _MOST_CHARACTERS) -> str:
    """`text`, or its first `most` characters with a note of how many there were."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text)} characters in all)"


def _text(error: BaseException) -> tuple[str, BaseException | None]:
    """An exception's type and text, and what its own code raised when it was asked for the text."""
    name = type(error).__name__
    try:
        return f"{name}: {shorten(str(error)) or '<EMPTY MESSAGE>'}", None
    except BaseException as another:  # noqa: BLE001  # whatever the model's code raises
        return f"{name}: <MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>", another


def _with_frames(text: str, error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return text
    while trace.tb_next is not None:
        trace = trace.tb_next
    lines = []
    frame: FrameType | None = trace.tb_frame
    line = trace.tb_lineno
    while frame is not None and not frame.f_code.co_filename.startswith(_OWN_FOLDER):
        lines.append(f"  {frame.f_code.co_filename}({line}): {frame.f_code.co_name}\n")
        frame = frame.f_back
        line = frame.f_lineno if frame is not None else 0
    if not lines:  # raised by our own code on the model's behalf: show its caller
        return describe_callers(text, trace.tb_frame)
    return f"{text}\n\nAt:\n{''.join(lines)}"


def describe_callers(text: str, frame: FrameType | None) -> str:
    """Like `describe`, for an exception raised inside this package: its frames above the model's are left out too."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    lines = []
    while frame is not None and not frame.f_code.co_filename.startswith(_OWN_FOLDER):
        lines.append(f"  {frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}\n")
        frame = frame.f_back
    if not lines or frame is None:  # the whole stack: nothing of the model in it
        return text
    return f"{text}\n\nAt:\n{''.join(lines)}"
