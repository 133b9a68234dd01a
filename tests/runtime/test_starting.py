"""How a server starts, and how it ends when a model hangs: in time, with all its processes."""

import os
import signal
import socket
import time

import psutil
import pytest

from tests.support.processes import ServerProcess, charonia, last_message
from tests.support.python_models import ECHO, HEAD

CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }]
"""
HANGS = """
    def initialize(self, args):
        time.sleep(1000)
"""
SOON_SECONDS = 20
"""Far more than it takes, far less than the hanging model does."""


@pytest.fixture
def repository(tmp_path):
    models = tmp_path / "models"
    for name, code in (("echo", ""), ("hanging", HANGS)):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(CONFIG)
        (models / name / "1/model.py").write_text(HEAD + code + ECHO)
    return models


def wait_for(condition, seconds=SOON_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(server):
    return psutil.Process(server.process.pid).children()


def test_a_server_is_live_while_models_load(repository, tmp_path):
    """SIGTERM then ends it at once."""
    server = ServerProcess(repository, tmp_path / "log", "--exit-timeout-secs=60")
    server.begin()
    wait_for(server.is_live)
    assert server.get("/v2/health/ready")[0] == 400
    wait_for(lambda: server.get("/v2/models/hanging/ready")[0] == 400 and len(children(server)) == 2)
    started = children(server)
    assert server.stop(timeout=SOON_SECONDS) == 0
    assert psutil.wait_procs(started, SOON_SECONDS)[1] == []
    assert "Told to stop while models load" in server.log


def begin_hanging_load(server):
    with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
        connection.sendall(b"POST /v2/repository/models/hanging/load HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        wait_for(lambda: len(children(server)) == 2)


def test_a_hanging_load_does_not_keep_the_process(repository, tmp_path):
    flags = ["--model-control-mode=explicit", "--load-model=echo", "--exit-timeout-secs=1"]
    with ServerProcess(repository, tmp_path / "log", *flags) as server:
        begin_hanging_load(server)
        started = children(server)
        assert server.stop(timeout=SOON_SECONDS) == 1
    assert psutil.wait_procs(started, SOON_SECONDS)[1] == []
    assert "Exit timeout expired" in server.log


def test_a_second_signal_ends_the_process_at_once(repository, tmp_path):
    flags = ["--model-control-mode=explicit", "--load-model=echo", "--exit-timeout-secs=600"]
    with ServerProcess(repository, tmp_path / "log", *flags) as server:
        begin_hanging_load(server)
        started = children(server)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "Signal (15) received." in server.log)
        assert server.stop(timeout=SOON_SECONDS) == 1
    assert psutil.wait_procs(started, SOON_SECONDS)[1] == []


def test_processes_of_frontends_end_with_a_killed_server(repository, tmp_path):
    flags = ["--model-control-mode=explicit", "--frontend-processes=1"]
    with ServerProcess(repository, tmp_path / "log", *flags) as server:
        (frontend,) = children(server)
        os.kill(frontend.pid, signal.SIGSTOP)  # busy as can be: it takes no notice of its channel
        server.process.kill()
        server.process.wait()
        try:
            assert psutil.wait_procs([frontend], SOON_SECONDS)[1] == []
        finally:
            if frontend.is_running():
                frontend.kill()


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--http-port=99999", "--http-port"),
        ("--grpc-port=-1", "--grpc-port"),
        ("--metrics-port=70000", "--metrics-port"),
        ("--http-address=no.such.host.invalid", "no.such.host.invalid"),
        ("--metrics-address=http://0.0.0.0", "http://0.0.0.0"),
        ("--grpc-address=grpc://0.0.0.0", "grpc://0.0.0.0"),
    ],
)
def test_addresses_and_files_are_refused_before_models_load(repository, flag, reason):
    arguments = ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--http-port=0", "--grpc-port=0"]
    result = charonia("serve", f"--model-repository={repository}", *arguments, "--metrics-port=0", flag)
    assert result.returncode == 1
    assert reason in result.stderr
    assert "loading" not in result.stderr


def test_files_of_tls_are_refused_before_models_load(repository):
    flags = ["--http-port=0", "--grpc-port=0", "--metrics-port=0", "--grpc-use-ssl=true", "--grpc-server-cert=/no"]
    result = charonia("serve", f"--model-repository={repository}", *flags, "--grpc-server-key=/none")
    assert result.returncode == 1
    assert "cannot read --grpc-server-key '/none'" in last_message(result.stderr)
    assert "loading" not in result.stderr


def test_sighup_opens_the_log_file_again(repository, tmp_path):
    path = tmp_path / "server.log"
    flags = ["--model-control-mode=explicit", "--frontend-processes=1", f"--log-file={path}"]
    with ServerProcess(repository, tmp_path / "log", *flags) as server:
        path.rename(tmp_path / "server.log.1")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: path.exists() and path.read_text().count("is opened again") == 2)
        assert server.get("/v2/health/ready")[0] == 200


def test_an_unreadable_repository_is_not_live(tmp_path):
    """As in Triton, which is not live either when it could not be initialized."""
    with ServerProcess(tmp_path / "no", tmp_path / "log", "--exit-on-error=false") as server:
        assert server.get("/v2/health/live")[0] == 400
        assert server.get("/v2/health/ready")[0] == 400
