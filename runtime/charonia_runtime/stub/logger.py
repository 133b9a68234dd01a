"""`pb_utils.Logger`: lines of the server's log, written by a model."""

import sys
import time
from enum import Enum, IntEnum
from pathlib import Path
from threading import Lock, Timer

from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.stub.arguments import member, text
from charonia_runtime.stub.context import context
from charonia_runtime.stub.exceptions import refuse_call, shorten
from charonia_runtime.stub.log_pace import LINES_PER_SECOND, LogPace


class LogLevel(IntEnum):
    """The server's levels."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3

    __str__ = Enum.__str__


_LEVEL_SIGNATURE = "(message: str, level: c_python_backend_utils.Logger.LogLevel = <LogLevel.INFO: 0>) -> None"
_MOST_CHARACTERS = 1 << 16
_pace = LogPace(time.monotonic())
_lock = Lock()
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
    if not context.session.alive:  # a fork of the model: the log is its parent's
        return
    with _lock:
        admitted, first_dropped = _pace.admit(time.monotonic()), _pace.dropped == 1
    if admitted:
        caller = sys._getframe(2)  # noqa: SLF001  # what logging does, too
        _send(shorten(message, _MOST_CHARACTERS), level, Path(caller.f_code.co_filename).name, caller.f_lineno)
    elif first_dropped:
        timer = Timer(1, _tell_dropped)
        timer.daemon = True
        timer.start()


def _tell_dropped() -> None:
    with _lock:
        dropped = _pace.take_dropped()
    text = f"{dropped} log lines of the model were dropped: it may write {LINES_PER_SECOND} a second"
    _send(text, LogLevel.WARNING, Path(__file__).name, 0)


def _send(message: str, level: LogLevel, file: str, line: int) -> None:
    notice = {"notice": "log", "level": level.name, "file": file, "line": line, "message": message}
    context.session.send(FrameKind.NOTICE, notice)
