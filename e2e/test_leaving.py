"""What stays, and what does not, when a service is deleted or the operator uninstalled."""

import pytest

from e2e.support.models import multiplier
from e2e.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

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


@pytest.fixture
def uninstalled(release):
    """The release, uninstalled for the time of a test at most. Gives what installs it again."""
    release.uninstall()
    install = [release.install]
    yield lambda: install.pop()()  # noqa: PLW0108 - not before it is called
    if install:
        release.install()


def test_services_go_on_without_the_release_and_with_the_next_one(simple, uninstalled, cluster):
    pods = [pod["metadata"]["uid"] for pod in simple.pods()]
    assert simple.live()["spec"]["replicas"] == 1
    assert simple.ask("http", "double", [1]) == [2]

    uninstalled()

    cluster.kubectl("label", "service/simple", "app.kubernetes.io/name-", "-n", simple.namespace)
    eventually(lambda: _labels(simple).get("app.kubernetes.io/name"), 120, "what was changed by hand is set right")
    assert simple.ask("http", "double", [1]) == [2]
    assert [pod["metadata"]["uid"] for pod in simple.pods()] == pods


def _labels(service):
    labels: dict[str, str] = service.cluster.kubectl.get("service", service.name, service.namespace)["metadata"][
        "labels"
    ]
    return labels
