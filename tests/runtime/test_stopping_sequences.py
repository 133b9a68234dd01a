"""What becomes of a client's sequence when the server is told to stop: it may end."""

import json
import signal
import time

from tests.support.processes import ServerProcess
from tests.support.repositories import write_model

STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"


def ask(server, sequence, *, start=False, end=False):
    request = {
        "parameters": {"sequence_id": sequence, "sequence_start": start, "sequence_end": end},
        "inputs": [{"name": "INPUT", "datatype": "INT32", "shape": [1, 4], "data": [1, 2, 3, 4]}],
    }
    status, body = server.request("POST", "/v2/models/simple/infer", json.dumps(request).encode())
    answer = json.loads(body)
    return (status, answer["error"]) if "error" in answer else (status, answer["outputs"][0]["data"])


def test_a_sequence_that_has_begun_may_end(tmp_path):
    write_model(tmp_path / "models", config="sequence_batching { max_sequence_idle_microseconds: 60000000 }")
    with ServerProcess(tmp_path / "models", tmp_path / "log") as server:
        assert ask(server, 7, start=True) == (200, [1, 2, 3, 4])
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while server.get("/v2/health/ready")[0] == 200:
            assert time.monotonic() < deadline
        assert ask(server, 7) == (200, [1, 2, 3, 4])
        assert ask(server, 8, start=True) == (503, STOPPING)
        assert ask(server, 7, start=True) == (503, STOPPING)
        assert ask(server, 7, end=True) == (200, [1, 2, 3, 4])
        assert server.process.wait(20) == 0
    assert "Found 1 model versions that have in-flight inferences" in server.log
    assert "Model 'simple' (version 1) has 1 in-flight inferences" in server.log
