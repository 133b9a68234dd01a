"""The operator as a process of its own, against an API server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.api_server import ApiServer


class OperatorProcess:
    """From `with` to the end of it."""

    def __init__(self, server: ApiServer, namespace: str, log: Path, *arguments: str) -> None:
        self._command = [
            sys.executable, "-m", "charonia_operator", "--liveness-port=0", *([f"--namespace={namespace}"] if namespace else []),
            "--runtime-image=example.com/runtime:1", "--runtime-gpu-image=example.com/runtime:1-gpu", *arguments,
        ]  # fmt: skip
        self._environment = {**os.environ, "KUBECONFIG": str(server.operator_kubeconfig()), "NO_PROXY": "127.0.0.1"}
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)
        return self

    def kill(self) -> None:
        """As a lost node would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def log(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process and self.process.poll() is None:
            self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self.process
        self.process.send_signal(how)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def eventually(look: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `look` gives as soon as that is true; it may raise meanwhile."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = look()
            if found:
                return found
            problem = f"still {found!r}"
        except Exception as error:  # noqa: BLE001 - told when the time is over
            problem = repr(error)
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {problem}")
        time.sleep(0.05)
