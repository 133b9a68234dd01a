"""Five hundred services, their pods played by kwok."""

import time

import pytest

from charonia_operator.naming import API_VERSION
from tests.support.operator_process import OperatorProcess, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
COUNT = 500


def test_many_services(api_server, cluster, namespace, tmp_path):
    """All become ready; then another operator starts and finds nothing to write."""
    for number in range(COUNT):
        cluster.apply(f"service-{number}")
    path = cluster.path("inferenceservices", "", API_VERSION)

    def ready():
        services = api_server.request("GET", path)["items"]
        return sum(each.get("status", {}).get("phase") == "Ready" for each in services) == COUNT

    with OperatorProcess(api_server, namespace, tmp_path / "first.log", "--model-poll-seconds=600"):
        began = time.monotonic()
        eventually(ready, 600)
        print(f"{COUNT} services ready in {time.monotonic() - began:.0f} s")
        cluster.quiet(10)
    since = cluster.moment()

    with OperatorProcess(api_server, namespace, tmp_path / "second.log", "--model-poll-seconds=600") as second:
        eventually(lambda: f"{COUNT} services" in second.log(), 60)
        time.sleep(20)
    requests = api_server.audited()[since:]

    assert [each for each in requests if each[0] in {"create", "update", "patch", "delete"}] == []
    assert len(requests) < 200, "reads: kinds times pages, and the watches"
