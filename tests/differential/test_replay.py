"""The recorded answers of a real Triton, replayed against a running server: none may differ without a listed reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ServerProcess

ALLOWED = Path(__file__).with_name("allowed.yaml")


@pytest.fixture
def tools():
    """The folder of the differential tester: its cases, models and the real server's answers."""
    folder = os.environ.get("CHARONIA_DIFFERENTIAL", "")
    if not folder:
        pytest.skip("CHARONIA_DIFFERENTIAL names no folder with the differential tester and its recorded answers")
    return Path(folder)


RECORDED = "--server-version-compatibility=2.51.0"
"""The release whose answers were recorded: later ones refuse more."""


@pytest.mark.timeout(600)
def test_every_recorded_answer_is_given(tools, tmp_path):
    flags = (tools / "cases/server.flags").read_text().split()
    with ServerProcess(tools / "models", tmp_path / "log", *flags, RECORDED) as server:
        replay = subprocess.run(
            [
                sys.executable, "-m", "differential", "replay", f"--candidate-http=http://{server.http}",
                f"--candidate-grpc={server.grpc}", f"--allow={ALLOWED}",
            ],
            cwd=tools, env={**os.environ, "PYTHONPATH": str(tools), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert replay.returncode == 0, replay.stdout + replay.stderr
