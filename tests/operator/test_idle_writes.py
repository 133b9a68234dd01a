"""A service that is as it should be costs the API server nothing, whatever its spec says, and however it spells it."""

import itertools

import pytest
from hypothesis import HealthCheck, given, reject, settings

from charonia_operator.cluster import Cluster
from charonia_operator.naming import API_VERSION, INFERENCE_SERVICE, OURS, POD
from charonia_operator.reconcile import Reconciler
from charonia_operator.resources import kinds
from charonia_operator.skew import Skew
from charonia_operator.store import Store
from tests.support.api_server import RefusedError
from tests.support.inference_services import SETTINGS
from tests.support.spec_examples import specs

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
_NUMBERS = itertools.count()
_REPOSITORY = {"modelRepository": {"uri": "s3://bucket/models"}}
_REPEATED = [
    {"server": {"env": [{"name": "A", "value": ""}]}},
    {"podTemplate": {"spec": {"hostNetwork": False}}},
    {"probes": {"readiness": {"httpGet": {"path": "/", "port": 8000}, "initialDelaySeconds": 0}}},
    {"scheduling": {"tolerations": [{"key": "", "operator": "Exists"}]}},
]
"""Each of these once cost a PATCH a pass."""


class Writes:
    """A cluster that counts what is written to it."""

    def __init__(self, cluster, server):
        self.cluster = cluster
        self.server = server
        self.done = []

    def __getattr__(self, name):
        found = getattr(self.cluster, name)
        if name not in {"apply", "apply_status", "delete", "record_event"}:
            return found

        def count(*arguments, **keywords):
            self.done.append((name, arguments[0]))
            return found(*arguments, **keywords)

        return count


class SilentPods:
    """Instead of a ModelWatch, whose answers come at any time."""

    def reports(self, key, targets):
        return {}

    def pause(self, key):
        return 3600.0


@pytest.fixture(scope="module")
def writes(api_server):
    with pytest.MonkeyPatch.context() as patch:
        place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
        patch.setattr(place, str(api_server.operator_kubeconfig()))
        return Writes(Cluster(connections=1), api_server)


def an_operator(writes, name):
    """One that has just started and looked at a service."""
    store = Store()
    for kind in (INFERENCE_SERVICE, *kinds(), POD):
        if kind.optional:
            continue
        labelled = {} if kind == INFERENCE_SERVICE else {"labelSelector": f"{OURS},serving.charonia.dev/service={name}"}
        store.replace(kind, writes.list(kind, "default", **labelled), store.mark())
    return Reconciler(writes, store, SETTINGS, SilentPods(), Skew(writes), now=lambda: "2026-01-01T00:00:00Z")


def passes(writes, spec):
    """What is written in the second pass over a service, and in the first two of an operator that starts then."""
    name = f"idle-{next(_NUMBERS)}"
    body = {"apiVersion": API_VERSION, "kind": "InferenceService", "metadata": {"name": name}, "spec": spec}
    path = f"/apis/{API_VERSION}/namespaces/default/inferenceservices"
    try:
        writes.server.request("POST", f"{path}?fieldValidation=Strict", body)
    except RefusedError as error:
        if error.status == 422:
            reject()
        raise
    try:
        operator = an_operator(writes, name)
        operator.reconcile(("default", name))
        status = operator.store.service(("default", name))["status"]
        if any(each["reason"] in {"SpecInvalid", "CRDMissing"} for each in status["conditions"]):
            reject()
        return [*_written(writes, operator, name), *_written(writes, an_operator(writes, name), name)]
    finally:
        writes.server.request("DELETE", f"{path}/{name}")


def _written(writes, operator, name):
    """By the second pass of two: the first may tell of what controllers did meanwhile."""
    since = len(writes.done)
    operator.reconcile(("default", name))
    applied = [each for each in writes.done[since:] if each[0] in {"apply", "delete"}]
    since = len(writes.done)
    operator.reconcile(("default", name))
    return [*applied, *writes.done[since:]]


@pytest.mark.parametrize("spec", _REPEATED, ids=str)
def test_zero_values(writes, spec):
    assert passes(writes, _REPOSITORY | spec) == []


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(spec=specs())
def test_any_legal_spec(writes, spec):
    assert passes(writes, spec) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(spec=specs())
def test_very_many_legal_specs(writes, spec):
    assert passes(writes, spec) == []
