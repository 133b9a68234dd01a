"""Lines that wait for the reader of a log."""

import os
import re
import threading
from pathlib import Path

import pytest

from charonia_runtime import log_writer
from charonia_runtime.log_writer import LogWriter


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def read(reading, end):
    data = b""
    while not data.endswith(end):
        data += os.read(reading, 65536)
    return data


def test_lines_arrive_in_order(pipe):
    reading, writing = pipe
    writer = LogWriter(writing)
    for number in range(1000):
        writer.write(f"line {number}\n")
    assert writer.flush(20)
    assert os.read(reading, 1 << 20).decode().splitlines() == [f"line {number}" for number in range(1000)]


def test_a_reader_that_stalls_stops_nobody_and_losses_are_counted(pipe, monkeypatch, caplog):
    reading, writing = pipe
    monkeypatch.setattr(log_writer, "_MOST_CHARACTERS", 1_000_000)
    writer = LogWriter(writing)
    line = "x" * 999 + "\n"
    for _ in range(3000):
        writer.write(line)
    assert not writer.flush(0.05)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(read(reading, b"later\n")))
    reader.start()
    assert writer.flush(20)
    writer.write("later\n")
    reader.join(20)
    lost = re.findall(r"(\d+) lines of the log are lost", caplog.text)
    assert sum(map(int, lost)) + received[0].count(b"\n") == 3001
    assert int(lost[0]) > 1500


def test_a_log_that_cannot_be_written_stops_nobody(caplog):
    with Path("/dev/full").open("wb", buffering=0) as full:
        writer = LogWriter(full.fileno())
        writer.write("line\n")
        assert writer.flush(20)


def test_the_file_that_has_the_name_now_is_gone_on_with(tmp_path):
    path, moved = tmp_path / "log", tmp_path / "log.1"
    with path.open("ab") as opened:
        writer = LogWriter(opened.fileno())
        writer.write("before\n")
        assert writer.flush(20)
        path.rename(moved)
        writer.reopen(path)
        writer.write("after ☃\ud800\n")
        assert writer.flush(20)
    assert moved.read_text() == "before\n"
    assert path.read_text() == "after ☃\\ud800\n"
