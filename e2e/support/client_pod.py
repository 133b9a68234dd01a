"""A pod beside the services that asks them as any other program in the cluster would."""

import contextlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from e2e.support import asking
from e2e.support.cluster import Cluster
from e2e.support.kubectl import run
from e2e.support.pods import restricted_pod

_NAME = "client"
_SITE = "/tmp/site"
_WAITS_FOR_EVER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit()); signal.pause()"
_UNPACKS = (
    f"import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall('{_SITE}', filter='data')"
)
_HTTP_CLIENT = ("geventhttpclient", "python-rapidjson")
"""What `tritonclient[http]` needs and the server's image has not."""


@dataclass
class LoadReport:
    """What came of a load: how often which answer, and each failure."""

    answers: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class ClientPod:
    """Runs the server's image, which has Triton's gRPC client; what the HTTP one needs is brought to it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._kubectl = cluster.kubectl
        self._namespace = namespace

    def start(self, image: str, folder: Path) -> None:
        """Make the pod, and bring the program to it. Packages are put together in `folder`."""
        pod = restricted_pod(_NAME, image, ["python3", "-c", _WAITS_FOR_EVER], {"PYTHONPATH": _SITE, "HOME": "/tmp"})
        self._kubectl.apply(pod, "-n", self._namespace)
        self._kubectl.wait(f"pod/{_NAME}", "condition=Ready", self._namespace, 180)
        version = self._exec("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "--only-binary=:all:"]
        run([*pip, f"--python-version={version}", *_HTTP_CLIENT], seconds=300)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(folder, ".")
            tar.add(str(asking.__file__), "asking.py")
        command = [*self._command("python3", "-c", _UNPACKS)]
        subprocess.run(
            [self._kubectl.program, *command], input=packed.getvalue(), env=self._kubectl.environment, check=True,
            capture_output=True, timeout=120,
        )  # fmt: skip

    def ask(self, protocol: str, address: str, model: str, values: list) -> list:
        """One question from the pod."""
        program = ["python3", "-m", "asking", "once", protocol, address, model, json.dumps(values)]
        answer: list = json.loads(self._exec(*program))
        return answer

    @contextlib.contextmanager
    def load(self, protocol: str, address: str, model: str, values: list[float]) -> Iterator[LoadReport]:
        """Ask until the end of the `with`. The report is filled then."""
        report = LoadReport()
        program = ["python3", "-m", "asking", "load", protocol, address, model, json.dumps(values)]
        with self._kubectl.start(*self._command(*program)) as asking_on:
            assert asking_on.stdout
            begun = asking_on.stdout.readline()
            try:
                yield report
            finally:
                rest, errors = asking_on.communicate(timeout=60)
        assert begun == "begun\n", errors
        told = json.loads(rest)
        report.answers, report.failures = told["answers"], told["failures"]

    def _exec(self, *program: str) -> str:
        return self._kubectl(*self._command(*program))

    def _command(self, *program: str) -> list[str]:
        return ["exec", "-i", "-n", self._namespace, _NAME, "--", *program]
