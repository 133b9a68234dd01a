"""A real Redis server for tests: Debian's `redis-server`, on a port of its own, with nothing written to disk."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def require_redis_server() -> str:
    """Where the program is; skips the test on machines without it."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs the program redis-server (Debian's package redis-server)")
    return program


@contextmanager
def redis_server(*arguments: str, tls: bool = False) -> Iterator[int]:
    """Runs a server while it is held; gives its port, which with `tls` is the only one and speaks nothing else."""
    program = require_redis_server()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    ports = ["--port", "0", "--tls-port", str(port)] if tls else ["--port", str(port)]
    command = [program, *ports, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_until_it_listens(port)
            yield port
        finally:
            process.terminate()


def _wait_until_it_listens(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "redis-server does not start"
            time.sleep(0.02)
        else:
            return
