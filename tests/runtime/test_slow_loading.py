"""Models that load slowly, or hang: requests to others do not wait for them."""

import gzip
import json
import threading
import time

import pytest

from tests.support.processes import ServerProcess
from tests.support.python_models import ECHO, HEAD

CONFIG = """
backend: "python"
input [{{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }}]
output [{{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }}]
instance_group [{{ count: {count} kind: KIND_CPU }}]
"""
WAITS = """
    def initialize(self, args):
        open({began!r} + args["model_instance_name"], "w").close()
        while not os.path.exists({door!r}):
            time.sleep(0.05)
"""
MANY = 7
"""Instances that load at once; more than a general pool of threads has here."""
OTHERS_SECONDS = 5
"""Far less than the slow model takes, far more than a request does."""


@pytest.fixture
def repository(tmp_path):
    models = tmp_path / "models"
    for name, count, code in (
        ("echo", 1, ""),
        ("slow", 20, WAITS.format(door=str(tmp_path / "door"), began=str(tmp_path / "began-"))),
    ):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(CONFIG.format(count=count))
        (models / name / "1/model.py").write_text(HEAD + code + ECHO)
    return models


def test_large_and_compressed_requests_wait_for_no_slow_model(repository, tmp_path):
    body = json.dumps(
        {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [9000], "data": list(range(9000))}]}
    ).encode()
    floats = bytes(8 << 20)
    compressed = gzip.compress(body)
    flags = ["--model-control-mode=explicit", "--load-model=echo"]
    with ServerProcess(repository, tmp_path / "log", *flags) as server:
        loading = threading.Thread(target=server.request, args=("POST", "/v2/repository/models/slow/load"), daemon=True)
        loading.start()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("began-*"))) < MANY:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        began = time.monotonic()
        path = "/v2/models/echo/infer"
        status, _ = server.request("POST", path, compressed, {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
        assert status == 200
        status, answer = server.request("POST", path, floats, {"Inference-Header-Content-Length": "0"})
        assert status == 200
        assert len(answer) >= len(floats)
        assert time.monotonic() - began < OTHERS_SECONDS
        assert loading.is_alive()
        (tmp_path / "door").touch()
        loading.join(60)
