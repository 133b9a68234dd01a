"""Nothing that a server loads reports its use to anybody, nor keeps what it would report."""

import re
import shutil
from pathlib import Path

import pytest

from charonia_runtime import telemetry
from tests.support.onnx_models import identity
from tests.support.processes import ServerProcess

MODEL = """
import os

class TritonPythonModel:
    def initialize(self, args):
        print("child has", os.environ.get("ORT_DISABLE_TELEMETRY"), flush=True)
        import onnxruntime

    def execute(self, requests):
        return []
"""
FOREIGN = re.compile(r'sin6?_addr=.*?"(?!127\.|::1")(?P<address>[0-9a-f.:]+)"')
CREATED = re.compile(r'openat\([^"]*"(?P<path>[^"]+)", [^)]*O_CREAT')


def test_a_server_and_its_models_write_and_send_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, home, temporary = tmp_path / "models", tmp_path / "home", tmp_path / "temporary"
    for name in ("home", "temporary", "models/onnx/1", "models/own/1"):
        (tmp_path / name).mkdir(parents=True)
    (repository / "onnx/1/model.onnx").write_bytes(identity())
    (repository / "own/1/model.py").write_text(MODEL)
    (repository / "own/config.pbtxt").write_text('backend: "python"')
    for name in ("CI", "TF_BUILD", "GITHUB_ACTIONS", "XDG_CACHE_HOME", "HTTPS_PROXY", *telemetry.SWITCHES):
        monkeypatch.delenv(name, raising=False)  # onnxruntime says nothing where it believes to be tested
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    trace = tmp_path / "trace"
    strace = ("strace", "-D", "-f", "-o", str(trace), "-e", "trace=connect,sendto,openat")
    traced = shutil.which("strace") is not None

    with ServerProcess(repository, tmp_path / "log", wrapper=strace if traced else ()) as server:
        assert server.get("/v2/models/onnx/ready")[0] == 200
        assert server.get("/v2/models/own/ready")[0] == 200
        server.stop()

    assert "child has 1" in server.log
    assert [*home.rglob("*")] == []
    assert [*temporary.rglob("*")] == []
    if traced:
        calls = trace.read_text(errors="replace")
        assert [found["address"] for found in FOREIGN.finditer(calls)] == []
        created = {found["path"] for found in CREATED.finditer(calls)}
        assert [path for path in created if not path.startswith((str(tmp_path), "/dev/", "/proc/"))] == []


def test_what_the_user_has_set_stays() -> None:
    environment = {"ORT_DISABLE_TELEMETRY": "0", "DO_NOT_TRACK": ""}

    telemetry.turn_off(environment)

    assert (environment["ORT_DISABLE_TELEMETRY"], environment["DO_NOT_TRACK"]) == ("0", "")
    assert environment["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_images_say_the_same_to_what_else_runs_in_them() -> None:
    image = (Path(__file__).parents[2] / "Dockerfile.runtime").read_text()

    for name, value in telemetry.SWITCHES.items():
        assert f" {name}={value}" in image
