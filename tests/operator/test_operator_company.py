"""Operators beside each other, objects that are large or leave with their namespace, definitions that come late."""

import pytest
import yaml

from tests.support.api_cluster import NamespaceView
from tests.support.api_server import RefusedError, find_programs, running_api_server
from tests.support.inference_services import CRD
from tests.support.operator_process import OperatorProcess, eventually

pytestmark = pytest.mark.timeout(300)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def operator_of(api_server, namespace, tmp_path):
    made = []

    def make(*arguments):
        made.append(OperatorProcess(api_server, namespace, tmp_path / f"{len(made)}.log", *arguments).start())
        return made[-1]

    yield make
    for process in made:
        if process.ended is None:
            process.kill()


def test_two_operators_do_not_quarrel(cluster, operator_of):
    """A second one writes what the first one does: nothing goes to and fro, and either can go."""
    first, _ = operator_of(), operator_of()
    cluster.apply(replicas=2)
    eventually(lambda: cluster.service().get("status", {}).get("readyReplicas") == 2)
    cluster.quiet()
    since = cluster.moment()

    cluster.quiet(5)
    assert cluster.writes(since) == []
    first.kill()
    cluster.apply(replicas=1)

    eventually(lambda: cluster.service()["status"]["replicas"] == 1)


@pytest.mark.slow
def test_an_operator_that_slept(cluster, operator_of):
    """It wakes up with an old picture of the cluster. What it may write of that, it takes back."""
    sleeper = operator_of()
    cluster.apply()
    eventually(cluster.is_ready)
    sleeper.freeze()
    with_other = operator_of()
    cluster.apply(replicas=3, server={"args": ["--log-verbose=1"]})
    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 3)

    sleeper.thaw()
    cluster.quiet(3)

    deployment = cluster.get("deployments")
    assert deployment["spec"]["replicas"] == 3
    assert "--log-verbose=1" in deployment["spec"]["template"]["spec"]["containers"][0]["command"]
    assert with_other.ended is None


@pytest.mark.slow
def test_a_large_service(cluster, operator_of):
    """Nothing of it is kept in annotations, which may not have more than 256 KiB."""
    operator_of()
    env = [{"name": f"VALUE_{number}", "value": "x" * 4000} for number in range(100)]
    cluster.apply(server={"env": env})

    eventually(cluster.is_ready)
    assert "annotations" not in cluster.service()["metadata"]


def test_a_namespace_goes_without_an_operator(cluster, operator_of):
    """No finalizer holds it."""
    operator = operator_of()
    cluster.apply(replicas=2)
    eventually(cluster.is_ready)
    assert operator.stop() == 0

    cluster.server.request("DELETE", f"/api/v1/namespaces/{cluster.namespace}")

    def is_gone():
        try:
            cluster.server.request("GET", f"/api/v1/namespaces/{cluster.namespace}")
        except RefusedError as error:
            return error.status == 404
        return False

    eventually(is_gone, 60)


def test_what_people_put_into_a_service_is_in_no_log(cluster, operator_of):
    """Environment variables may be secret, and logs go far."""
    canary = "canary-of-a-secret"
    operator = operator_of("--log-level=DEBUG")
    cluster.apply(server={"env": [{"name": "PASSWORD", "value": canary}]})
    eventually(cluster.is_ready)
    cluster.apply(server={"env": [{"name": "PASSWORD", "value": canary}]}, podTemplate={"spec": {"containers": 1}})
    eventually(lambda: cluster.condition("Stalled")["reason"] == "SpecInvalid")

    assert canary not in operator.log()
    assert canary not in str(cluster.service()["status"])


@pytest.fixture
def bare_server(tmp_path):
    """Without the definition of InferenceServices, and without controllers."""
    programs = find_programs()
    if programs is None:
        pytest.skip("no API server: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver")
    with running_api_server(programs, tmp_path / "data", controllers=False) as server:
        yield server


def test_a_definition_that_comes_late_goes_and_comes_back(bare_server, tmp_path):
    """The operator waits for it; where it loses it, it may end: the kubelet starts it again."""
    crd = yaml.safe_load(CRD.read_text())
    cluster = NamespaceView(bare_server, "default")
    script = "import charonia_operator.handlers as h; h._WATCHDOG_SECONDS = 0.5"
    arguments = {"kubeconfig": bare_server.kubeconfig(), "before": script}
    operator = OperatorProcess(bare_server, "default", tmp_path / "log", **arguments).start()
    try:
        eventually(lambda: "waiting for the cluster to know" in operator.log())
        bare_server.request("POST", DEFINITIONS, crd)
        eventually(cluster.apply)
        eventually(lambda: cluster.get("deployments"))

        bare_server.request("DELETE", f"{DEFINITIONS}/{crd['metadata']['name']}")
        eventually(lambda: refused(lambda: bare_server.request("GET", f"{DEFINITIONS}/{crd['metadata']['name']}")))
        bare_server.request("POST", DEFINITIONS, crd)
        eventually(lambda: cluster.apply("later"))

        def is_seen():
            if operator.ended is not None:
                operator.start()
            return cluster.get("deployments", "later")

        eventually(is_seen, 90)
    finally:
        if operator.ended is None:
            operator.kill()


def refused(ask):
    try:
        ask()
    except RefusedError:
        return True
    return False
