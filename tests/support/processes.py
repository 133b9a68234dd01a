"""A real `charonia serve` in a process of its own, for tests that speak to it as its users do."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self


def free_port() -> int:
    """A TCP port that nobody listens on, now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def charonia(*arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a `charonia` command to its end."""
    command = [sys.executable, "-m", "charonia_runtime", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout, env={**os.environ, **environment}
    )


def last_message(log: str) -> str:
    """The message of the last record of a log."""
    message: str = json.loads(log.splitlines()[-1].partition("] ")[2])
    return message


class ServerProcess:
    """
    `charonia serve` on free ports of the loopback interface; a context manager that waits until its models are loaded.

    Leaving the context stops it with SIGTERM; `log` then holds all that it printed.
    """

    def __init__(
        self, repository: Path, log_path: Path, *flags: str, wait_seconds: float = 60, wrapper: Sequence[str] = ()
    ) -> None:
        """`wrapper` is a command that runs the server in its own place, with the same process id."""
        self.http_port, self.grpc_port, self.metrics_port = free_port(), free_port(), free_port()
        self.http = f"127.0.0.1:{self.http_port}"
        self.grpc = f"127.0.0.1:{self.grpc_port}"
        self.metrics = f"127.0.0.1:{self.metrics_port}"
        self._log_path = log_path
        self._wait_seconds = wait_seconds
        self._command = [
            *wrapper, sys.executable, "-m", "charonia_runtime", "serve", f"--model-repository={repository}",
            "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}", f"--metrics-port={self.metrics_port}", *flags,
        ]  # fmt: skip

    def __enter__(self) -> Self:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(f"\0charonia-test-{uuid.uuid4().hex}")
            notices.settimeout(0.02)
            self._start({"NOTIFY_SOCKET": f"@{notices.getsockname()[1:].decode()}"})
            deadline = time.monotonic() + self._wait_seconds
            while not _is_ready(notices):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    self.process.wait()
                    raise RuntimeError(f"the server did not start:\n{self.log}")
        return self

    def begin(self) -> None:
        """Start the process and do not wait for its models."""
        self._start({})

    def _start(self, environment: dict[str, str]) -> None:
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **environment}
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def stop(self, number: int = signal.SIGTERM, timeout: float = 40) -> int:
        """Send a signal, wait for the end, return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET on the HTTP port."""
        return self.request("GET", path)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(self.http, timeout=30)) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()

    def is_live(self) -> bool:
        try:
            return self.get("/v2/health/live")[0] == 200
        except OSError:
            return False


def _is_ready(notices: socket.socket) -> bool:
    """Whether the server has just said that its models are loaded."""
    try:
        return notices.recv(1000) == b"READY=1"
    except TimeoutError:
        return False
