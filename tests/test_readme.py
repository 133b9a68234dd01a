"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from charonia_runtime.options import parse_serve
from tests.support.processes import ServerProcess

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n(?:^```\w*\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def block(start: str) -> tuple[str, str]:
    """The block of code that starts with `start`, and the output shown below it."""
    for _, code, output in BLOCK.findall((ROOT / "README.md").read_text()):
        if code.startswith(start):
            return code, output
    raise LookupError(start)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(ROOT / "runtime/examples/models", tmp_path_factory.mktemp("readme") / "log") as process:
        yield process


def test_the_call_with_curl(server):
    code, output = block("curl")
    method, path = "POST", code.split("localhost:8000")[1].strip()
    body = (ROOT / code.split("@")[1].split()[0]).read_bytes()

    status, answer = server.request(method, path, body)

    assert (status, answer.decode()) == (200, output.strip())


def test_the_call_with_the_python_client(server):
    code, output = block("import json")
    code = code.replace("localhost:8000", server.http)

    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert result.stdout == output, result.stderr


def test_the_command_for_gateways_is_one():
    code, _ = block("charonia serve")

    options = parse_serve(code.split()[2:], {})

    assert options.frontends["v2_http"].path_prefix == ("/api/predict/digits",)
    assert options.frontends["v2_http"].access_tokens is options.frontends["v2_grpc"].access_tokens is not None
    assert options.engine.drain_secs == 20


def test_ci_runs_the_test_command():
    """The check is one command, the same for a newcomer and for continuous integration."""
    code, _ = block("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e")
    script = (ROOT / ".ci/run").read_text()

    for step in code.strip().split(" && "):
        assert step.split(" -c ")[0].split()[0] in script
    assert ".venv/bin/pytest" in script
    assert "-e '.[test]'" in script
