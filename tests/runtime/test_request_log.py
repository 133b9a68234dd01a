"""Lines of requests: which are written, at which level, and that clients cannot forge them."""

import json
import logging
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from charonia_runtime.core.frontend import OptionError
from charonia_runtime.logs import Log, LogOptions
from charonia_runtime.request_log import WANTED, RequestLog

NAME = "charonia_runtime.request_log"
SOME_TEXT = st.text(alphabet=st.characters(codec=None), max_size=40)


def log_of(wanted, *, is_verbose=False):
    log = RequestLog()
    log.want(wanted)
    log.follow(is_verbose=is_verbose)
    return log


def write_both(log):
    log.write("HTTP", "GET /v2", 200, time.monotonic_ns())
    log.write("HTTP", "GET /v3", 404, time.monotonic_ns(), error="Not there")


@pytest.mark.parametrize(
    ("wanted", "is_verbose", "levels"),
    [
        ("off", False, ["DEBUG"]),  # a request that ends after the log was switched off; nobody shows it
        ("off", True, ["DEBUG", "DEBUG"]),
        ("errors", False, ["WARNING"]),
        ("errors", True, ["DEBUG", "WARNING"]),
        ("all", False, ["INFO", "WARNING"]),
        ("all", True, ["INFO", "WARNING"]),
    ],
)
def test_levels(caplog, wanted, is_verbose, levels):
    log = log_of(wanted, is_verbose=is_verbose)
    with caplog.at_level(logging.DEBUG, logger=NAME):
        write_both(log)
    assert [record.levelname for record in caplog.records] == levels
    assert log.active is (is_verbose or wanted != "off")


def test_a_line_tells_everything(caplog):
    log = log_of("all")
    with caplog.at_level(logging.INFO, logger=NAME):
        log.write(
            "gRPC", "ModelInfer", "INVALID_ARGUMENT", time.monotonic_ns() - 2_000_000, model="m", received=12, sent=0,
            request_id="7", client="[::1]:5", error="unexpected inference input 'Z' for model 'm'",
        )  # fmt: skip
        log.write("HTTP", "GET /v2", 200, time.monotonic_ns())
    first, second = (record.getMessage() for record in caplog.records)
    before, after = first.split(" ms=")
    assert before == "gRPC ModelInfer model=m status=INVALID_ARGUMENT in=12 out=0"
    took, rest = after.split(" ", 1)
    assert float(took) >= 2
    assert rest == (
        "id=7 client=[::1]:5 error: unexpected inference input 'Z' for model 'm' "
        "(GET /v2/models/NAME lists the names; case matters)"
    )
    assert second.startswith("HTTP GET /v2 model=- status=200 in=0 out=0 ms=")
    assert second.endswith(" id=- client=-")


@given(SOME_TEXT, SOME_TEXT, SOME_TEXT, SOME_TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nobody_forges_a_line(caplog, call, model, request_id, error):
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=NAME):
        log_of("all").write("HTTP", call, 400, 0, model=model, request_id=request_id, error=error)
    (record,) = caplog.records
    line = record.getMessage()
    assert line.isprintable()
    head, _, _ = line.partition(" error: ")
    assert len(head.split(" client=")[0].split(" ms=")[1].split(" ")) == 2, "the id is one word"


def test_long_texts_are_cut(caplog):
    with caplog.at_level(logging.INFO, logger=NAME):
        log_of("all").write("HTTP", "x" * 10**6, 400, 0, model="y" * 10**6, request_id="z" * 10**6, error="e" * 10**6)
    assert len(caplog.records[0].getMessage()) < 1200


def test_the_flag():
    for wanted in WANTED:
        assert LogOptions(log_requests=wanted).requests.active is (wanted != "off")
    with pytest.raises(OptionError, match="--log-requests must be one of off, errors, all, got 'some'"):
        LogOptions(log_requests="some")


def test_a_reader_that_stalls_stops_nobody():
    """Ten megabytes of lines for a pipe that nobody reads; what found no room is counted when somebody does."""
    reading, writing = os.pipe()
    options = LogOptions(log_requests="all")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    with os.fdopen(writing, "w", encoding="utf-8") as stream, os.fdopen(reading, encoding="utf-8") as reader:
        log = Log(options, stream=stream)
        log.install()
        try:
            for _ in range(10_000):
                options.requests.write("HTTP", "GET /" + "x" * 300, 400, 0, request_id="y" * 200, error="z" * 600)
            found = []
            for line in reader:
                found.append(line)
                if "lines of the log are lost" in line:
                    break
        finally:
            log.close()
            root.handlers[:] = handlers
            root.setLevel(level)
    lost = int(json.loads(found[-1].partition("] ")[2]).split(" ")[0])
    assert lost > 0
    assert lost + len(found) - 1 == 10_000
