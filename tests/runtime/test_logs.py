import io
import json
import logging
import os
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.logs import Log, LogOptions, Switches, table, verbose

OURS = logging.getLogger("charonia_runtime.somewhere")
PLAIN = LogOptions()
THEIRS = logging.getLogger("library.somewhere")
DEFAULT = re.compile(r'^([IWE])(\d{4}) \d\d:\d\d:\d\d\.\d{6} (\d+) (\S+\.py):(\d+)\] (".*")$')
ISO8601 = re.compile(r'^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ([IWE]) (\d+) (\S+\.py):(\d+)\] (".*")$')


@pytest.fixture
def root():
    """The root logger, as pytest wants it back."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = False


@pytest.fixture
def start(root):
    """Install a log with some options; gives it and what it writes."""
    opened = []

    def install(options=PLAIN, **settings):
        stream = io.StringIO()
        log = Log(options, stream=stream, **settings)
        log.install()
        opened.append(log)
        return log, stream

    yield install
    for log in opened:
        log.close()


def letters(stream):
    return "".join(line[0] for line in stream.getvalue().splitlines())


def log_everything():
    OURS.log(verbose(2), "verbose 2")
    OURS.debug("verbose 1")
    OURS.info("info")
    OURS.warning("warning")
    OURS.error("error")
    OURS.critical("critical")


# --- lines ---


def test_default_lines(start):
    _, stream = start()

    OURS.info("loading: %s:%d", "simple", 1)

    letter, _, pid, file, line, message = DEFAULT.match(stream.getvalue().rstrip("\n")).groups()
    assert (letter, pid, file, message) == ("I", str(os.getpid()), "test_logs.py", '"loading: simple:1"')
    assert int(line) > 1


def test_iso8601_lines(start):
    _, stream = start(LogOptions(log_format="ISO8601"))

    OURS.warning("careful")

    _, letter, pid, _, _, message = ISO8601.match(stream.getvalue().rstrip("\n")).groups()
    assert (letter, pid, message) == ("W", str(os.getpid()), '"careful"')


@pytest.mark.parametrize(
    ("line_format", "expected"), [("default", "I1121 11:15:33.074773"), ("ISO8601", "2026-11-21T11:15:33Z I")]
)
def test_times_are_utc(start, monkeypatch, line_format, expected):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    _, stream = start(LogOptions(log_format=line_format))
    record = OURS.makeRecord(OURS.name, logging.INFO, "a/file.py", 7, "message", (), None)
    record.created, record.process = 1795259733.0747735, 42

    OURS.handle(record)

    assert stream.getvalue() == f'{expected} 42 file.py:7] "message"\n'


@given(message=st.text())
def test_any_message_is_one_line(message):
    stream = io.StringIO()
    log = Log(stream=stream)
    log._handler.handle(OURS.makeRecord(OURS.name, logging.ERROR, "file.py", 1, "%s", (message,), None))

    text = stream.getvalue()
    assert text.count("\n") == 1
    assert json.loads(text.split("] ", 1)[1]) == message


def test_quoting_can_be_turned_off(start):
    _, stream = start(escape=False)

    OURS.error('two\n"lines"')

    assert stream.getvalue().endswith('] two\n"lines"\n')


def test_exceptions_stay_in_their_line(start):
    _, stream = start()

    try:
        int("boom")
    except ValueError:
        OURS.exception("failed")

    message = json.loads(stream.getvalue().split("] ", 1)[1])
    assert message.startswith("failed\nTraceback")
    assert message.endswith("ValueError: invalid literal for int() with base 10: 'boom'")


# --- switches ---


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), "IWEE"),
        (LogOptions(log_info=False), "WEE"),
        (LogOptions(log_warning=False), "IEE"),
        (LogOptions(log_error=False), "IW"),
        (LogOptions(log_verbose="1"), "IIWEE"),
        (LogOptions(log_verbose="true"), "IIWEE"),
        (LogOptions(log_verbose="2"), "IIIWEE"),
        (LogOptions(log_verbose="-1"), "IWEE"),
        (LogOptions(log_verbose="1", log_info=False, log_warning=False, log_error=False), "I"),
        (LogOptions(log_info=False, log_warning=False, log_error=False), ""),
    ],
)
def test_severities_have_a_switch_each(start, options, expected):
    _, stream = start(options)

    log_everything()

    assert letters(stream) == expected


def test_switches_act_at_once(start):
    log, stream = start()
    log.switches = Switches(info=False)
    log_everything()
    log.switches = replace(log.switches, info=True, verbose_level=1, line_format="ISO8601")
    OURS.debug("now shown")

    *first, last = stream.getvalue().splitlines()
    assert "".join(line[0] for line in first) == "WEE"
    assert ISO8601.match(last)


def test_hidden_records_are_not_even_made(start):
    log, _ = start()

    assert not OURS.isEnabledFor(logging.DEBUG)
    log.switches = Switches(verbose_level=1)
    assert OURS.isEnabledFor(logging.DEBUG)
    log.switches = Switches(info=False, warning=False, error=False)
    assert not OURS.isEnabledFor(logging.CRITICAL)


def test_information_of_libraries_is_verbose(start):
    log, stream = start()
    THEIRS.info("hidden")
    THEIRS.warning("shown")
    log.switches = Switches(verbose_level=1)
    THEIRS.info("hidden at level 1 no more")

    assert letters(stream) == "WI"


def test_access_lines_are_off(start):
    log, stream = start()
    log.switches = Switches(verbose_level=9)

    logging.getLogger("uvicorn.access").info("GET /")

    assert stream.getvalue() == ""


def test_unknown_formats_change_nothing(start):
    log, _ = start()

    with pytest.raises(InvalidArgumentError, match=r"^invalid argument for log_format, got: fancy$"):
        log.switches = replace(log.switches, line_format="fancy")
    assert log.switches.line_format == "default"


@pytest.mark.parametrize(
    ("options", "flag", "message"),
    [
        ({"log_format": "fancy"}, "log-format", "invalid argument for --log-format"),
        ({"log_verbose": "1.4"}, "log-verbose", "Invalid option value. Got 1.4"),
        ({"log_verbose": ""}, "log-verbose", "Invalid option value. Got "),
        ({"log_verbose": "4294967296"}, "log-verbose", "Provided option value is out of bound. Got 4294967296"),
    ],
)
def test_malformed_options(options, flag, message):
    with pytest.raises(OptionError) as caught:
        LogOptions(**options)

    assert (caught.value.flag, caught.value.message) == (flag, message)


# --- where it goes ---


def test_the_console_is_stderr(root, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    log = Log()
    log.install()
    OURS.info("here")
    log.close()

    assert '"here"' in sys.stderr.getvalue()


def test_files_are_appended_to(start, tmp_path):
    path = tmp_path / "server.log"
    path.write_text("before\n")
    log, stream = start(LogOptions(log_file=str(path)))

    OURS.info("after")
    log.close()

    before, after = path.read_text().splitlines()
    assert before == "before"
    assert after.endswith('"after"')
    assert stream.getvalue() == ""
    assert log.file == str(path)


def test_text_that_cannot_be_encoded_is_written_all_the_same(start, tmp_path):
    path = tmp_path / "server.log"
    log, _ = start(LogOptions(log_file=str(path)))

    OURS.error("\ud800 café")
    log.close()

    assert path.read_text().endswith('"\\ud800 café"\n')


def test_a_file_that_was_moved_away_is_opened_again(start, tmp_path):
    path = tmp_path / "server.log"
    log, _ = start(LogOptions(log_file=str(path)))
    OURS.info("before")
    path.rename(tmp_path / "server.log.1")

    log.reopen()
    OURS.info("after")
    log.close()

    assert "before" in (tmp_path / "server.log.1").read_text()
    assert "before" not in path.read_text()
    assert path.read_text().endswith('"after"\n')


def test_a_file_that_does_not_open_leaves_the_console(start, tmp_path):
    _, stream = start(LogOptions(log_file=str(tmp_path / "nowhere" / "server.log")))

    OURS.info("still here")

    warning, line = stream.getvalue().splitlines()
    assert "unable to open log file" in warning
    assert "No such file or directory" in warning
    assert "still here" in line


def test_closing_gives_the_root_logger_back(root):
    log = Log(stream=io.StringIO())
    log.install()
    assert [type(handler) for handler in root.handlers] == [logging.StreamHandler]
    log.close()

    assert root.handlers == []


# --- tables ---


def test_tables():
    assert table(("Model", "Version", "Status"), [("add_sub", "1", "READY"), ("b", "-", "Not loaded:\nnothing")]) == (
        "+---------+---------+-------------+\n"
        "| Model   | Version | Status      |\n"
        "+---------+---------+-------------+\n"
        "| add_sub | 1       | READY       |\n"
        "| b       | -       | Not loaded: |\n"
        "|         |         | nothing     |\n"
        "+---------+---------+-------------+"
    )


def test_empty_tables():
    assert table(("Repository Agent", "Path"), []) == (
        "+------------------+------+\n"
        "| Repository Agent | Path |\n"
        "+------------------+------+\n"
        "+------------------+------+"
    )


def test_tables_are_not_quoted(start):
    _, stream = start()

    OURS.info(table(("A",), [("1",)]))

    head, rest = stream.getvalue().split("\n", 1)
    assert re.match(r"^I\d{4} .*\.py:\d+\] $", head)
    assert rest == "+---+\n| A |\n+---+\n| 1 |\n+---+\n\n"
