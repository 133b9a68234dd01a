"""`--log-requests` and the verbose level that changes while processes serve."""

import json
import re
import time
from pathlib import Path

from tests.support import usual_mistakes
from tests.support.processes import ServerProcess

BODY = json.dumps({
    "id": "a\nE1122 forged", "inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}],
}).encode()  # fmt: skip


def lines_of(server: ServerProcess, count: int) -> list[str]:
    """The lines of requests, once there are so many."""
    deadline = time.monotonic() + 30
    while True:
        found = re.findall(r'request_log\.py:\d+\] "(.*)"$', server.log, re.MULTILINE)
        if len(found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def test_frontend_processes_tell_failures_and_all_while_the_log_is_verbose(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    usual_mistakes.write(repository / "m", usual_mistakes.GOOD)
    with ServerProcess(
        repository, tmp_path / "log", "--frontend-processes=2", "--log-requests=errors", wait_seconds=240
    ) as server:
        assert server.request("POST", "/v2/models/m/infer", BODY)[0] == 200
        assert server.request("POST", "/v2/models/m/infer?token=secret", BODY.replace(b"FP32", b"INT32"))[0] == 400
        (line,) = lines_of(server, 1)
        assert line.startswith("HTTP POST /v2/models/m/infer model=m status=400 in=")
        assert " id=a%0AE1122%20forged client=127.0.0.1:" in line
        assert "(convert it, as in array.astype(np.float32) for FP32; GET /v2/models/NAME lists the types)" in line

        assert server.request("POST", "/v2/logging", b'{"log_verbose_level": 1}')[0] == 200
        assert server.request("POST", "/v2/models/m/infer", BODY)[0] == 200
        found = lines_of(server, 3)
        assert found[-1].startswith("HTTP POST /v2/models/m/infer model=m status=200 in=")
        assert server.request("POST", "/v2/logging", b'{"log_verbose_level": 0}')[0] == 200
        count = len(lines_of(server, 3))
        assert server.request("POST", "/v2/models/m/infer", BODY)[0] == 200
        assert server.request("POST", "/v2/models/nope/infer", BODY)[0] == 404
        last = lines_of(server, count + 1)[count:]
        assert [line.split(" in=")[0] for line in last if "/v2/logging" not in line] == [
            "HTTP POST /v2/models/nope/infer model=nope status=404"
        ]
        assert "secret" not in server.log
