import itertools
import time
from pathlib import Path

import pytest
import yaml

from tests.support.api_cluster import NamespaceView
from tests.support.api_server import find_programs, running_api_server
from tests.support.inference_services import CRD
from tests.support.operator_process import eventually

_NUMBERS = itertools.count()
RULES = Path(__file__).resolve().parents[2] / "charts/charonia/rules.yaml"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files of the operator anew")
    parser.addoption("--third", type=int, help="0, 1 or 2: only each third test, of which this is the first one")
    parser.addoption("--begin-within", type=float, metavar="SECONDS", help="begin no test later than that")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    third = config.getoption("third", None)
    if third is not None:
        config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number % 3 != third % 3])
        items[:] = items[third % 3 :: 3]


@pytest.fixture(scope="session")
def _latest_begin(request):
    return time.monotonic() + (request.config.getoption("begin_within", None) or float("inf"))


@pytest.fixture(autouse=True)
def _in_time(_latest_begin):
    if time.monotonic() > _latest_begin:
        pytest.skip("no time is left")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """With the definition of InferenceServices, and user `operator` with the chart's rights and no others."""
    programs = find_programs()
    if programs is None:
        pytest.skip("no API server: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver")
    with running_api_server(programs, tmp_path_factory.mktemp("api-server") / "data") as server:
        crd = yaml.safe_load(CRD.read_text())
        server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        _grant(server)
        eventually(lambda: server.request("GET", "/apis/serving.charonia.dev/v1alpha1/inferenceservices"))
        yield server


def _grant(server):
    group = "rbac.authorization.k8s.io"
    version = f"{group}/v1"
    rules = yaml.safe_load(RULES.read_text())
    role = {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "charonia"}, "rules": rules}
    binding = {
        "apiVersion": version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "charonia"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "charonia"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "operator"}],
    }
    server.apply(role)
    server.apply(binding)


@pytest.fixture
def namespace(api_server):
    """A namespace of the test's own."""
    name = f"test-{next(_NUMBERS)}"
    api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    if api_server.has_controllers:
        eventually(lambda: api_server.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    return name


@pytest.fixture
def cluster(api_server, namespace):
    """The API server, seen from that namespace, with the controllers that make pods of Deployments."""
    if not api_server.has_controllers:
        pytest.skip("no controllers: KUBEBUILDER_ASSETS has no kube-controller-manager, kube-scheduler or kwok")
    return NamespaceView(api_server, namespace)
