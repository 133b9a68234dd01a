"""Operators that are killed, replaced, and left alone by the API server."""

import time

import pytest

from tests.support.operator_process import OperatorProcess, eventually

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def idle_operator(api_server, namespace, tmp_path):
    """To be started by the test."""
    process = OperatorProcess(api_server, namespace, tmp_path / "operator.log")
    yield process
    if process.process and process.process.poll() is None:
        process.kill()


def test_a_second_run_writes_nothing(cluster, idle_operator):
    cluster.apply(
        replicas=2,
        resources={"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"memory": "2Gi"}},
        networking={"ingress": {}},
        autoscaling={"minReplicas": 2, "maxReplicas": 3, "metrics": [{"type": "CPU", "target": 70}]},
    )
    idle_operator.start()
    eventually(cluster.is_ready)
    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 2)
    cluster.quiet()
    assert idle_operator.stop() == 0
    since = cluster.moment()

    idle_operator.start()
    cluster.quiet()

    assert cluster.writes(since) == []


def test_an_upgrade_restarts_no_pod(api_server, cluster, namespace, tmp_path):
    """Another operator with other defaults keeps the pods that it finds; a changed spec gets the new ones."""
    cluster.apply()
    with OperatorProcess(api_server, namespace, tmp_path / "old.log"):
        eventually(cluster.is_ready)
    before = cluster.names("pods", "v1")

    with OperatorProcess(api_server, namespace, tmp_path / "new.log", "--runtime-image=example.com/runtime:2"):
        cluster.apply(replicas=2)
        eventually(lambda: cluster.service()["status"]["readyReplicas"] == 2)
        pods = [cluster.get("pods", name, "v1") for name in cluster.names("pods", "v1")]
        assert set(before) < {pod["metadata"]["name"] for pod in pods}
        assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"example.com/runtime:1"}

        cluster.apply(replicas=2, server={"args": ["--log-verbose=1"]})

        image = lambda: cluster.get("deployments")["spec"]["template"]["spec"]["containers"][0]["image"]  # noqa: E731
        eventually(lambda: image() == "example.com/runtime:2")


def test_it_finishes_what_a_killed_one_began(cluster, idle_operator):
    """Killed after each of the first writes."""
    for number in range(1, 7):
        since = cluster.moment()
        name = f"service-{number}"
        idle_operator.start()
        cluster.apply(name)
        eventually(lambda since=since, number=number: len(cluster.writes(since)) >= number)
        idle_operator.kill()

    idle_operator.start()

    for number in range(1, 7):
        eventually(lambda number=number: cluster.is_ready(f"service-{number}"))
    assert len(cluster.names("deployments")) == 6


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_the_api_server_goes_and_comes_back(cluster, idle_operator, seconds):
    idle_operator.start()
    cluster.apply()
    eventually(cluster.is_ready)

    cluster.server.stop_api_server()
    time.sleep(seconds)
    cluster.server.start_api_server()
    if seconds > 30:
        cluster.server.restart_controllers()
    cluster.apply("later")

    eventually(lambda: cluster.is_ready("later"), 60)
    assert idle_operator.process.poll() is None
