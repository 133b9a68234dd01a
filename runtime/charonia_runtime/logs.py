"""
The server's log: the lines that tritonserver prints, with switches that change while it runs.

A reader that stalls stops nobody: lines wait in `log_writer`, and what finds no room there is counted.

Everything goes to stderr, as in Triton 2.51, or to the log file. Modules log with `logging.getLogger(__name__)`;
INFO, WARNING and ERROR have a switch each. Verbose level 1 shows DEBUG, each further level one number less
(`verbose(2)`). Information from libraries counts as verbose: it is written for their developers.
"""

import json
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final, TextIO

from typing_extensions import override

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.log_writer import LogWriter
from charonia_runtime.request_log import WANTED, RequestLog

FORMATS: Final = ("default", "ISO8601")

_PACKAGE = __name__.partition(".")[0]
_SILENT = logging.CRITICAL + 1
_FLUSH_SECONDS: Final = 0.5
"""How long the end of the process waits for a reader of the log that stalls."""

logger = logging.getLogger(__name__)


def verbose(level: int) -> int:
    """The number of `--log-verbose=<level>` among logging's levels, for `logger.log`; 1 is DEBUG."""
    return max(logging.DEBUG + 1 - level, 1)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Flags of the group Logging. Raises OptionError for a malformed value."""

    log_verbose: str = option("0", "Verbose level; 0 or false is off, true is 1.", metavar="<integer>")
    log_info: bool = option(True, "Log information.")
    log_warning: bool = option(True, "Log warnings.")
    log_error: bool = option(True, "Log errors.")
    log_format: str = option("default", "Format of the log's lines.", metavar="<default|ISO8601>")
    log_file: str = option(
        "",
        "Append the log to this file instead of writing it to stderr. Where it cannot be opened, a warning says so and "
        "the log stays on stderr. SIGHUP opens the file again.",
        metavar="<file>",
    )
    log_requests: str = option(
        "off",
        "One line for each request that HTTP and gRPC answer, or for each that fails: what was asked, model, status, "
        "bytes in and out, milliseconds, id and client. Verbose level 1 shows all of them, too.",
        metavar="<off|errors|all>",
    )
    _requests: RequestLog = field(default_factory=RequestLog, compare=False)

    def __post_init__(self) -> None:
        if self.log_requests not in WANTED:
            raise OptionError(
                "log-requests", f"--log-requests must be one of {', '.join(WANTED)}, got '{self.log_requests}'"
            )
        self._requests.want(self.log_requests)
        self.verbose_level  # noqa: B018 - refuse a malformed level now
        if self.log_format not in FORMATS:
            raise OptionError("log-format", "invalid argument for --log-format")

    @property
    def requests(self) -> RequestLog:
        """What frontends tell of each request; it is verbose while the log is."""
        return self._requests

    @property
    def verbose_level(self) -> int:
        words = {"true": 1, "false": 0}
        text = self.log_verbose.lower()
        if text in words:
            return words[text]
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()):
            raise OptionError("log-verbose", f"Invalid option value. Got {self.log_verbose}")
        if int(digits) >= 2**31:
            raise OptionError("log-verbose", f"Provided option value is out of bound. Got {self.log_verbose}")
        return max(int(text), 0)


class Table(str):
    """A message that stays as it is: several lines, not quoted."""

    __slots__ = ()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """The box that tritonserver logs its models and options in. Cells may have several lines."""
    body = [[str(cell) for cell in row] for row in rows]
    widths = [
        max(len(line) for row in (header, *body) for line in row[column].split("\n")) for column in range(len(header))
    ]
    rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    return Table(
        "\n".join([rule, *_lines(header, widths), rule, *(_ for row in body for _ in _lines(row, widths)), rule])
    )


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The physical lines of one row."""
    cells = [cell.split("\n") for cell in row]
    return [
        f"| {' | '.join(part.ljust(width) for part, width in zip(parts, widths, strict=True))} |"
        for parts in zip_longest(*cells, fillvalue="")
    ]


@dataclass(frozen=True, slots=True)
class Switches:
    """What of the log may change while the server runs. `line_format` is one of `FORMATS`."""

    info: bool = True
    warning: bool = True
    error: bool = True
    verbose_level: int = 0
    line_format: str = "default"

    def __post_init__(self) -> None:
        if self.line_format not in FORMATS:
            raise InvalidArgumentError(f"invalid argument for log_format, got: {self.line_format}")

    @property
    def least_level(self) -> int:
        """The least level of logging that is shown."""
        by_level = (
            (verbose(self.verbose_level), self.verbose_level > 0),
            (logging.INFO, self.info),
            (logging.WARNING, self.warning),
            (logging.ERROR, self.error),
        )
        return next((level for level, on in by_level if on), _SILENT)

    def show(self, record: logging.LogRecord) -> bool:
        level = record.levelno
        if level >= logging.ERROR:
            return self.error
        if level >= logging.WARNING:
            return self.warning
        if level >= logging.INFO and record.name.partition(".")[0] == _PACKAGE:
            return self.info
        return self.verbose_level > 0 and level >= verbose(self.verbose_level)


class Log:
    """
    The process's log. `install` makes it the only handler of Python's root logger until `close`.

    `escape` quotes messages as JSON, so that one event is one line (`TRITON_SERVER_ESCAPE_LOG_MESSAGES`). A file that
    cannot be opened is no reason not to serve: the log stays on the console, as in Triton.
    """

    def __init__(
        self, options: LogOptions = LogOptions(), *, escape: bool = True, stream: TextIO | None = None
    ) -> None:
        self.file = options.log_file
        self._requests = options.requests
        self._switches = Switches(
            options.log_info, options.log_warning, options.log_error, options.verbose_level, options.log_format
        )
        self._opened: TextIO | None = None
        self._failure = ""
        if self.file:
            try:
                self._opened = Path(self.file).open("a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - until close
            except OSError as error:
                self._failure = error.strerror or str(error)
        self._formatter = _LineFormatter(self._switches.line_format, escape=escape)
        self._writer: LogWriter | None = None
        self._handler = self._make_handler(stream)
        self._handler.setFormatter(self._formatter)
        self._handler.addFilter(self._shows)
        self._installed = False

    def _make_handler(self, stream: TextIO | None) -> logging.Handler:
        target = self._opened or stream or sys.stderr
        try:
            self._writer = LogWriter(target.fileno())
        except (OSError, ValueError):  # a stream within this process: it never stalls
            return logging.StreamHandler(target)
        return _WriterHandler(self._writer)

    def reopen(self) -> None:
        """Go on in the file that has the log's name now, after the old one was moved away. Without a file: nothing."""
        if self._opened is None or self._writer is None:
            return
        self._writer.flush(_FLUSH_SECONDS)
        try:
            self._writer.reopen(Path(self.file))
        except OSError as error:
            logger.warning("unable to open log file '%s' again: %s", self.file, error.strerror)
        else:
            logger.info("log file '%s' is opened again", self.file)

    @property
    def switches(self) -> Switches:
        return self._switches

    @switches.setter
    def switches(self, switches: Switches) -> None:
        """Takes effect with the next record. The root logger's level drops what is hidden, at next to no cost."""
        self._switches = switches
        self._formatter.line_format = switches.line_format
        self._requests.follow(is_verbose=switches.verbose_level > 0)
        if self._installed:
            logging.getLogger().setLevel(switches.least_level)

    def install(self) -> None:
        """Take over the root logger, and silence the library that writes a line for each request."""
        root = logging.getLogger()
        for handler in list(root.handlers):
            root.removeHandler(handler)
        root.addHandler(self._handler)
        logging.getLogger("uvicorn.access").disabled = True
        self._installed = True
        self.switches = self._switches
        if self._failure:
            logger.warning("logging to the console: unable to open log file '%s': %s", self.file, self._failure)

    def close(self) -> None:
        """Leave the root logger and close the file."""
        root = logging.getLogger()
        if self._installed:
            root.removeHandler(self._handler)
            root.setLevel(logging.WARNING)
            self._installed = False
        self._handler.flush()
        self._handler.close()
        if self._opened is not None:
            self._opened.close()

    def _shows(self, record: logging.LogRecord) -> bool:
        return self._switches.show(record)


class _WriterHandler(logging.Handler):
    """Gives formatted records to a `LogWriter`."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 as logging's own handlers do
            self.handleError(record)

    @override
    def flush(self) -> None:
        self._writer.flush(_FLUSH_SECONDS)


class _LineFormatter(logging.Formatter):
    """One record to one line, in one of `FORMATS`. Times are UTC."""

    def __init__(self, line_format: str, *, escape: bool) -> None:
        super().__init__()
        self.line_format = line_format
        self._escape = escape

    @override
    def format(self, record: logging.LogRecord) -> str:
        head = f"{self._head(record)} {record.filename}:{record.lineno}]"
        if isinstance(record.msg, Table):
            return f"{head} \n{record.msg}\n"
        message = record.getMessage()
        if record.exc_info:
            message = f"{message}\n{self.formatException(record.exc_info)}"
        return f"{head} {json.dumps(message, ensure_ascii=False) if self._escape else message}"

    def _head(self, record: logging.LogRecord) -> str:
        letter = "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"
        seconds, fraction = divmod(record.created, 1)
        moment = time.gmtime(seconds)
        if self.line_format == "ISO8601":
            return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', moment)} {letter} {record.process}"
        return f"{letter}{time.strftime('%m%d %H:%M:%S', moment)}.{int(fraction * 1e6):06d} {record.process}"
