"""What stays, and what does not, when a service is deleted or the operator uninstalled."""

import pytest

from e2e.support.models import multiplier
from e2e.support.release import NAMESPACE as OPERATOR
from e2e.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

MADE = {
    "ControllerRevision", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PersistentVolumeClaim",
    "PodDisruptionBudget", "Service",
}  # fmt: skip
KINDS = ",".join([*sorted(MADE), "Pod", "ReplicaSet", "EndpointSlice"])


@pytest.fixture
def whole(a_service, store):
    """A service that has a child of every kind that a plain cluster knows."""
    service = a_service("whole")
    store.put(multiplier("double", 2), "whole/")
    service.apply(
        modelRepository={"cache": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"size": "1Gi"}}},
        autoscaling={"minReplicas": 2, "maxReplicas": 3, "metrics": [{"type": "CPU", "target": 80}]},
        resources={"requests": {"cpu": "10m"}},
        networking={"ingress": {"className": "none"}, "hostnames": ["whole.example.com"]},
    )
    yield service
    service.delete()


def test_deletion_leaves_nothing(whole):
    made = eventually(lambda: _kinds(whole) >= MADE | {"Pod", "ReplicaSet"} and _kinds(whole), 120, "all is made")
    assert "EndpointSlice" in made

    whole.delete()

    eventually(lambda: not whole.children(KINDS), 120, "all is gone")


def _kinds(service):
    return {child["kind"] for child in service.children(KINDS)}


def test_services_go_on_without_the_release_and_with_the_next_one(simple, release, cluster):
    pods = [pod["metadata"]["uid"] for pod in simple.pods()]

    release.uninstall()

    assert cluster.kubectl.list("pods", OPERATOR) == []
    assert simple.live()["spec"]["replicas"] == 1
    assert simple.ask("http", "double", [1]) == [2]

    release.install()
    cluster.kubectl("label", "service/simple", "serving.charonia.dev/service-", "-n", simple.namespace)
    eventually(lambda: simple.children("services"), 120, "the operator has set right what was changed by hand")
    assert simple.ask("http", "double", [1]) == [2]
    assert [pod["metadata"]["uid"] for pod in simple.pods()] == pods
