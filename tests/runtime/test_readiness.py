"""Readiness tells whether a model can run, not whether it once could."""

import json
import time

from tests.support.processes import ServerProcess
from tests.support.python_models import HEAD, write_model

CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }]
"""
MODEL = """
    def initialize(self, args):
        if os.path.exists(os.path.join(args["model_repository"], "broken")):
            raise RuntimeError("broken now")

    def execute(self, requests):
        if requests[0].inputs()[0].as_numpy()[0] < 0:
            os._exit(1)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
PATHS = ("/v2/models/frail/ready", "/v2/health/ready")


def ask(server, number):
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [number]}]}
    return server.request("POST", "/v2/models/frail/infer", json.dumps(body).encode())[0]


def until_ready(server, status):
    deadline = time.monotonic() + 20
    while [server.get(path)[0] for path in PATHS] != [status, status]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_model_whose_process_does_not_come_up_again_is_not_ready_until_it_does(tmp_path):
    folder = tmp_path / "models/frail"
    write_model(folder, MODEL, head=HEAD)
    (folder / "config.pbtxt").write_text(CONFIG)
    with ServerProcess(tmp_path / "models", tmp_path / "log", "--allow-grpc=false", "--allow-metrics=false") as server:
        assert ask(server, 1) == 200
        until_ready(server, 200)

        (folder / "broken").touch()
        assert ask(server, -1) == 500
        until_ready(server, 400)
        assert server.get(PATHS[0])[1] == b'{"error":"Model version not ready"}'
        assert server.get("/v2/health/live")[0] == 200

        (folder / "broken").unlink()
        until_ready(server, 200)
        assert ask(server, 1) == 200
