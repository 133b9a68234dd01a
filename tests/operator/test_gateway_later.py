"""Gateway API that is installed when the operator and a service with a route are there already."""

import pytest
import yaml

from charonia_operator.naming import API_VERSION
from tests.support.api_cluster import NamespaceView
from tests.support.api_server import find_programs, running_api_server
from tests.support.inference_services import CRD
from tests.support.operator_process import OperatorProcess, eventually

pytestmark = pytest.mark.timeout(300)
GROUP = "gateway.networking.k8s.io"
ROUTES = f"{GROUP}/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def server(tmp_path):
    """One without controllers, and of the test's own: another kind is to be unknown at first."""
    programs = find_programs()
    if programs is None:
        pytest.skip("no API server: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver")
    with running_api_server(programs, tmp_path / "data", controllers=False) as server:
        server.request("POST", DEFINITIONS, yaml.safe_load(CRD.read_text()))
        eventually(lambda: server.request("GET", f"/apis/{API_VERSION}/inferenceservices"))
        yield server


def install_gateway_api(server):
    for kind in ("HTTPRoute", "GRPCRoute"):
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
        metadata = {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        }
        spec = {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        }
        server.request("POST", DEFINITIONS, {"metadata": metadata, "spec": spec})


def test_a_route_when_gateway_api_comes_after_the_operator(server, tmp_path):
    """The operator ends in an orderly way, as a pod it starts again, and then hears at once what a Gateway says."""
    view = NamespaceView(server, "default")
    arguments = {"kubeconfig": server.kubeconfig()}
    with OperatorProcess(server, "default", tmp_path / "log", "--resync-seconds=3", **arguments) as operator:
        view.apply(networking={"gateway": {"parentRefs": [{"name": "public"}]}})
        eventually(lambda: view.condition("RouteReady").get("reason") == "CRDMissing", 60)

        install_gateway_api(server)

        eventually(lambda: operator.ended == 0, 60)
    assert "begin again with watches for grpcroutes, httproutes" in operator.log()
    with OperatorProcess(server, "default", tmp_path / "again.log", "--resync-seconds=3600", **arguments) as operator:
        eventually(lambda: view.names("httproutes", ROUTES) == ["simple"], 90)
        accepted = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}
        status = {"parents": [{"parentRef": {"name": "public"}, "conditions": [accepted]}]}
        view.merge(view.path("httproutes", "simple/status", ROUTES), {"status": status})

        eventually(lambda: view.condition("RouteReady").get("status") == "True", 30)
        assert operator.ended is None
