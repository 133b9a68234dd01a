"""`pb_utils.Logger`: lines of the server's log, written by a model."""

import sys
from enum import Enum, IntEnum
from pathlib import Path

from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.stub.context import context


class LogLevel(IntEnum):
    """The server's levels."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3

    __str__ = Enum.__str__


class Logger:
    """Writes to the server's log, with the file and the line of the caller."""

    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message: str | bytes, level: IntEnum = LogLevel.INFO) -> None:
        _write(message, level)

    @staticmethod
    def log_info(message: str | bytes) -> None:
        _write(message, LogLevel.INFO)

    @staticmethod
    def log_warn(message: str | bytes) -> None:
        _write(message, LogLevel.WARNING)

    @staticmethod
    def log_error(message: str | bytes) -> None:
        _write(message, LogLevel.ERROR)

    @staticmethod
    def log_verbose(message: str | bytes) -> None:
        _write(message, LogLevel.VERBOSE)


def _write(message: object, level: IntEnum) -> None:
    caller = sys._getframe(2)  # noqa: SLF001  # what logging does, too
    context.session.send(
        FrameKind.NOTICE,
        {
            "notice": "log",
            "level": LogLevel(level).name,
            "file": Path(caller.f_code.co_filename).name,
            "line": caller.f_lineno,
            "message": message.decode() if isinstance(message, bytes) else str(message),
        },
    )
