"""Manifests that are applied again and again, by more than one hand."""

import json

import pytest

from e2e.conftest import NINE_LINES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ARGO = ("--server-side", "--field-manager=argocd-controller")


@pytest.fixture
def manifest(simple):
    return NINE_LINES.replace("ENDPOINT", simple.endpoint)


def versions(service):
    """What changes with any write to the service's spec or its children."""
    live = service.live()["metadata"]
    children = service.children("deployments,services,controllerrevisions,pods")
    return live["generation"], [
        (child["kind"], child["metadata"]["name"], child["metadata"].get("generation")) for child in children
    ]


def test_applying_the_same_manifest_again_changes_nothing(simple, manifest, cluster):
    before = versions(simple)

    assert "unchanged" in simple.apply(manifest)
    assert cluster.kubectl("diff", "-n", simple.namespace, "-f", "-", stdin=manifest) == ""
    assert versions(simple) == before


def test_another_manager_can_apply_it_as_well(simple, manifest, cluster):
    before = versions(simple)
    cluster.kubectl.apply(manifest, "-n", simple.namespace, *ARGO)
    applied = simple.live()["metadata"]["resourceVersion"]

    cluster.kubectl.apply(manifest, "-n", simple.namespace, *ARGO)

    assert simple.live()["metadata"]["resourceVersion"] == applied
    assert versions(simple) == before
    assert simple.condition("Ready")["status"] == "True"


def test_scaling_by_command_is_a_change_of_the_spec(simple, cluster):
    cluster.kubectl("scale", "infsvc/simple", "--replicas=2", "-n", simple.namespace)
    cluster.kubectl.wait("infsvc/simple", "jsonpath={.status.readyReplicas}=2", simple.namespace, 240)
    told = json.loads(cluster.kubectl("get", "--raw", _scale_path(simple)))
    assert (told["spec"]["replicas"], told["status"]["replicas"]) == (2, 2)

    cluster.kubectl("scale", "infsvc/simple", "--replicas=1", "-n", simple.namespace)
    cluster.kubectl.wait("infsvc/simple", "jsonpath={.status.replicas}=1", simple.namespace, 240)


def _scale_path(service):
    group = "/apis/serving.charonia.dev/v1alpha1"
    return f"{group}/namespaces/{service.namespace}/inferenceservices/{service.name}/scale"
