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

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        log: Path,
        *arguments: str,
        kubeconfig: Path | None = None,
        account: Path | None = None,
        before: str = "",
    ) -> None:
        """`account`: the folder of a service account, used instead of a kubeconfig. `before`: Python to run first."""
        script = f"{before}\nfrom charonia_operator.__main__ import main\nmain()"
        if account:
            script = (
                f"import pathlib, charonia_operator.identity as i; i.ACCOUNT = pathlib.Path({str(account)!r})\n{script}"
            )
        self._command = [
            sys.executable, "-c", script, "--liveness-port=0", *([f"--namespace={namespace}"] if namespace else []),
            "--runtime-image=example.com/runtime:1", "--runtime-gpu-image=example.com/runtime:1-gpu", *arguments,
        ]  # fmt: skip
        host, _, port = server.url.removeprefix("https://").partition(":")
        address = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port} if account else {}
        config = kubeconfig or server.operator_kubeconfig()
        self._environment = {**os.environ, "NO_PROXY": "127.0.0.1", **(address or {"KUBECONFIG": str(config)})}
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

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def ended(self) -> int | None:
        """Its exit code when it has ended."""
        return self._process.poll()

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self.process
        return self.process

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
        self._process.send_signal(how)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
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
