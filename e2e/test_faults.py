"""What is lost comes back, and serving needs the operator for nothing."""

import pytest

from e2e.support.models import multiplier
from e2e.support.release import NAMESPACE as OPERATOR
from e2e.support.services import READY_SECONDS
from e2e.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

KILL_SERVER = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    words = (process / "cmdline").read_bytes().split(b"\\0")
    if any(word.endswith(b"/tritonserver") for word in words):
        os.kill(int(process.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def sturdy(a_service, store):
    """A service whose containers see each other's processes, so that one can be killed as the kernel would."""
    service = a_service("sturdy")
    store.put(multiplier("double", 2), "sturdy/")
    service.apply(podTemplate={"spec": {"shareProcessNamespace": True}})
    service.wait_until_ready()
    yield service
    service.delete()


def answers_again(service):
    eventually(lambda: service.ask("http", "double", [1]) == [2], READY_SECONDS, f"{service.name} answers")
    service.wait_for("Ready", "True", seconds=READY_SECONDS)


def the_pod(service):
    """Its only pod, once there is but one."""
    return eventually(lambda: len(found := service.pods()) == 1 and found[0], READY_SECONDS, "one pod is left")


def server_of(pod):
    return next(each for each in pod["status"]["containerStatuses"] if each["name"] == "server")


def test_a_server_that_crashes_serves_again_from_the_copy_that_it_has(sturdy):
    before = the_pod(sturdy)
    sturdy.run("python3", "-c", KILL_SERVER)

    after = eventually(
        lambda: server_of(pod := the_pod(sturdy))["restartCount"] == 1 and server_of(pod)["ready"] and pod,
        READY_SECONDS, "the server is started again",
    )  # fmt: skip
    answers_again(sturdy)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    copied = [each["containerID"] for each in before["status"]["initContainerStatuses"]]
    assert [each["containerID"] for each in after["status"]["initContainerStatuses"]] == copied
    assert server_of(after)["lastState"]["terminated"]["exitCode"] == 137


def test_a_pod_that_is_killed_is_replaced(sturdy, cluster):
    lost = the_pod(sturdy)["metadata"]
    cluster.kubectl("delete", "pod", lost["name"], "-n", sturdy.namespace, "--force", "--grace-period=0")

    eventually(lambda: the_pod(sturdy)["metadata"]["uid"] != lost["uid"], READY_SECONDS, "another pod is there")
    answers_again(sturdy)


def test_without_the_operator_pods_serve_and_come_back(sturdy, cluster, client, release):
    pod = the_pod(sturdy)["metadata"]
    with client.load("http", sturdy.address(8000), "double", [1.0]) as load:
        cluster.kubectl("scale", release.deployment(), "--replicas=0", "-n", OPERATOR)
        release.wait_until_gone()
    cluster.kubectl("delete", "pod", pod["name"], "-n", sturdy.namespace, "--force", "--grace-period=0")
    eventually(lambda: the_pod(sturdy)["metadata"]["uid"] != pod["uid"], READY_SECONDS, "another pod is there")
    eventually(lambda: sturdy.ask("http", "double", [1]) == [2], READY_SECONDS, "the pod serves without the operator")
    replacement = the_pod(sturdy)["metadata"]["uid"]

    cluster.kubectl("scale", release.deployment(), "--replicas=1", "-n", OPERATOR)
    cluster.kubectl("rollout", "status", release.deployment(), "-n", OPERATOR, "--timeout=120s", seconds=150)
    answers_again(sturdy)
    assert load.failures == []
    assert the_pod(sturdy)["metadata"]["uid"] == replacement


def test_a_node_that_starts_again_serves_again(sturdy, cluster, client):
    if not cluster.is_ours:
        pytest.skip("this cluster's nodes are not the tests' to restart")
    pod = the_pod(sturdy)["metadata"]["uid"]

    cluster.restart()

    answers_again(sturdy)
    eventually(lambda: client.ask("grpc", sturdy.address(8001), "double", [1.0]) == [2.0], 120, "pods are answered")
    assert the_pod(sturdy)["metadata"]["uid"] == pod
    sturdy.wait_for("ModelsReady", "True")
