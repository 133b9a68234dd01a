"""`pb_utils.Logger`: lines of the server's log, written by a model."""

import sys
from enum import Enum, IntEnum
from pathlib import Path

from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.stub.arguments import member, text
from charonia_runtime.stub.context import context
from charonia_runtime.stub.exceptions import refuse_call


class LogLevel(IntEnum):
    """The server's levels."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3

    __str__ = Enum.__str__


_LEVEL_SIGNATURE = "(message: str, level: c_python_backend_utils.Logger.LogLevel = <LogLevel.INFO: 0>) -> None"
_SIGNATURE = "(message: str) -> None"


class Logger:
    """Writes to the server's log, with the file and the line of the caller."""

    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message: str | bytes, level: IntEnum = LogLevel.INFO) -> None:
        """Raises TypeError for a message that is no text and for a level that is none of `LogLevel`."""
        try:
            line, chosen = text(message), member(level, LogLevel)
        except TypeError:
            raise refuse_call("log", _LEVEL_SIGNATURE, message, level) from None
        _write(line, chosen)

    @staticmethod
    def log_info(message: str | bytes) -> None:
        _write(_text(message, "log_info"), LogLevel.INFO)

    @staticmethod
    def log_warn(message: str | bytes) -> None:
        _write(_text(message, "log_warn"), LogLevel.WARNING)

    @staticmethod
    def log_error(message: str | bytes) -> None:
        _write(_text(message, "log_error"), LogLevel.ERROR)

    @staticmethod
    def log_verbose(message: str | bytes) -> None:
        _write(_text(message, "log_verbose"), LogLevel.VERBOSE)


def _text(message: str | bytes, function: str) -> str:
    """The message. Raises the TypeError of `function` when it is no text."""
    try:
        return text(message)
    except TypeError:
        raise refuse_call(function, _SIGNATURE, message) from None


def _write(message: str, level: LogLevel) -> None:
    caller = sys._getframe(2)  # noqa: SLF001  # what logging does, too
    context.session.send(
        FrameKind.NOTICE,
        {
            "notice": "log",
            "level": level.name,
            "file": Path(caller.f_code.co_filename).name,
            "line": caller.f_lineno,
            "message": message,
        },
    )
