"""
Asks the real Triton of every scenario and writes down what it answers.

    python -m tests.differential.scheduling.record 'tritonserver --model-repository={repository} {flags}'

The command starts the server; `{repository}` and `{flags}` stand for what it is to serve. It needs the python backend.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.differential.scheduling.models import write_repository
from tests.differential.scheduling.scenarios import FLAGS, SCENARIOS, Conversation
from tests.support.processes import free_port

ANSWERS = Path(__file__).with_name("answers.json")
_PATIENCE_SECONDS = 60


@contextmanager
def served(command: str, folder: Path, log: Path = Path(os.devnull)) -> Iterator[Conversation]:
    """A server that `command` starts, on free ports, with the models in `folder`; asked when it is ready."""
    ports = {name: free_port() for name in ("http", "grpc", "metrics")}
    flags = [*(f"--{name}-port={port}" for name, port in ports.items()), *FLAGS]
    line = command.format(repository=write_repository(folder), flags=shlex.join(flags))
    with log.open("wb") as output, subprocess.Popen(shlex.split(line), stdout=output, stderr=output) as server:
        try:
            with Conversation(f"127.0.0.1:{ports['http']}", f"127.0.0.1:{ports['metrics']}", folder) as talk:
                deadline = time.monotonic() + _PATIENCE_SECONDS
                while not talk.is_ready():
                    assert server.poll() is None, "the server did not start"
                    assert time.monotonic() < deadline, "the server is not ready"
                    time.sleep(0.1)
                yield talk
        finally:
            server.send_signal(signal.SIGTERM)


def write(answers: dict[str, list[Any]]) -> None:
    """One line for each answer."""
    scenarios = []
    for name, heard in answers.items():
        lines = ",\n".join(json.dumps(one) for one in heard)
        scenarios.append(f"{json.dumps(name)}: [\n{lines}\n]")
    ANSWERS.write_text("{\n" + ",\n".join(scenarios) + "\n}\n")


def main(command: str) -> None:
    with tempfile.TemporaryDirectory() as folder, served(command, Path(folder)) as talk:
        answers = {}
        for scenario in SCENARIOS:
            print(scenario.__name__, flush=True)
            answers[scenario.__name__] = scenario(talk)
    write(answers)


if __name__ == "__main__":
    main(sys.argv[1])
