"""kubectl, as a user has it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SECONDS = 120


class CommandError(AssertionError):
    """A command has failed. The message is what it printed."""


def run(command: Sequence[str | Path], *, stdin: str = "", environment: Mapping[str, str] | None = None,
        seconds: float = _SECONDS, folder: Path | None = None) -> str:  # fmt: skip
    """What a command printed. Raises CommandError."""
    done = subprocess.run(
        [str(word) for word in command], input=stdin, env={**os.environ, **(environment or {})}, cwd=folder,
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    if done.returncode:
        shown = " ".join(str(word) for word in command)[:300]
        raise CommandError(f"{shown}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


class Kubectl:
    """One cluster's API, by its kubeconfig."""

    def __init__(self, program: str | Path, environment: Mapping[str, str]) -> None:
        self.program = str(program)
        self.environment = {**os.environ, **environment}

    def __call__(self, *arguments: str, stdin: str = "", seconds: float = _SECONDS) -> str:
        """What `kubectl <arguments>` prints. Raises CommandError."""
        return run([self.program, *arguments], stdin=stdin, environment=self.environment, seconds=seconds)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """kubectl as a process that goes on, with pipes to it."""
        return subprocess.Popen(
            [self.program, *arguments], env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def apply(self, manifest: str | Mapping[str, Any], *flags: str) -> str:
        """`kubectl apply` of a text of YAML, or of an object."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self("apply", *flags, "-f", "-", stdin=text)

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """An object. Raises CommandError where there is none."""
        found: dict[str, Any] = json.loads(self("get", kind, name, *_in(namespace), "-o", "json"))
        return found

    def list(self, kinds: str, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        """Every object of these kinds."""
        chosen = ["-l", selector] if selector else []
        items: list[dict[str, Any]] = json.loads(self("get", kinds, *_in(namespace), *chosen, "-o", "json"))["items"]
        return items

    def wait(self, what: str, condition: str, namespace: str, seconds: float) -> None:
        """Until `condition`, as `kubectl wait --for` reads it, holds. Raises CommandError."""
        self("wait", what, f"--for={condition}", *_in(namespace), f"--timeout={seconds:g}s", seconds=seconds + 30)


def _in(namespace: str) -> list[str]:
    return ["-n", namespace] if namespace else []
