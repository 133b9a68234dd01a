"""An operator that is newer than the definition of InferenceServices."""

import copy
import logging

import pytest
import yaml

from charonia_operator.cluster import Cluster, ClusterError
from charonia_operator.naming import API_VERSION, INFERENCE_SERVICE
from charonia_operator.skew import Skew
from charonia_operator.status.fitting import fitted
from tests.support.api_server import find_programs, running_api_server
from tests.support.inference_services import CRD, a_body, crd_schema
from tests.support.operator_process import eventually

STATUS = {
    "phase": "Ready",
    "image": "a:1",
    "replicas": 2,
    "models": [
        {"name": "a", "version": "1", "state": "Ready", "pods": 2},
        {"name": "b", "version": "1", "state": "Unavailable"},
    ],
    "lastFailure": {"pod": "a-1", "message": "x" * 9},
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def older(schema):
    """A definition without some of what the operator writes."""
    status = copy.deepcopy(schema)
    properties = status["properties"]
    del properties["image"], properties["models"]["items"]["properties"]["pods"]
    properties["phase"]["enum"].remove("Ready")
    properties["models"]["items"]["properties"]["state"]["enum"].remove("Unavailable")
    properties["replicas"]["type"] = "string"
    properties["lastFailure"]["properties"]["message"]["maxLength"] = 4
    return status


def test_what_the_definition_can_hold():
    kept, left_out = fitted(STATUS, older(crd_schema()["properties"]["status"]))

    assert kept == {
        "models": [{"name": "a", "version": "1", "state": "Ready"}],
        "lastFailure": {"pod": "a-1", "message": "xxxx"},
    }
    assert set(left_out) == {
        "status.phase",
        "status.image",
        "status.replicas",
        "status.models[].pods",
        "status.models[].state",
    }


def test_a_status_of_the_same_version_fits():
    assert fitted(STATUS, crd_schema()["properties"]["status"]) == (STATUS, [])


class Definition:
    def __init__(self, schema):
        self.schema = schema
        self.reads = 0

    def status_schema(self):
        self.reads += 1
        return self.schema


def test_more_items_than_the_definition_can_hold():
    schema = {"type": "array", "maxItems": 2, "items": {"type": "integer"}}

    assert fitted([1, 2, 3], schema) == ([1, 2], [])
    assert fitted([1, "2", 3], schema) == ([1, 3], ["status[]"])


def test_nothing_is_asked_before_a_refusal():
    definition = Definition(older(crd_schema()["properties"]["status"]))
    skew = Skew(definition)

    assert skew.fitted(STATUS) is STATUS
    assert not skew.explains(ClusterError(503, "Unavailable", "later"))
    assert definition.reads == 0
    assert skew.explains(ClusterError(422, "Invalid", "field not declared in schema"))
    assert not skew.explains(ClusterError(422, "Invalid", "once more")), "a refused status is fitted once"


def test_it_is_said_once_and_an_upgrade_is_noticed(caplog):
    schema = crd_schema()["properties"]["status"]
    definition, now = Definition(older(schema)), [0.0]
    skew = Skew(definition, clock=lambda: now[0])
    skew.explains(ClusterError(422, "Invalid", ""))

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert "image" not in skew.fitted(STATUS)
    assert len(caplog.records) == 1
    assert "status.image" in caplog.text

    definition.schema, now[0] = schema, 301.0
    assert skew.fitted(STATUS) == STATUS
    assert definition.reads == 2


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
@pytest.mark.timeout(120)
def test_an_older_definition_in_a_cluster(tmp_path, monkeypatch):
    programs = find_programs()
    if programs is None:
        pytest.skip("no API server: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver")
    definition = yaml.safe_load(CRD.read_text())
    holder = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    newer, holder["status"] = holder["status"], older(holder["status"])
    definition["spec"]["versions"][0]["subresources"].pop("scale")
    with running_api_server(programs, tmp_path / "data", controllers=False) as server:
        server.request("POST", DEFINITIONS, definition)
        path = f"/apis/{API_VERSION}/namespaces/default/inferenceservices"
        body = a_body()
        del body["metadata"]["uid"], body["metadata"]["generation"]
        eventually(lambda: server.request("POST", path, body))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(server.kubeconfig()))
        cluster = Cluster(connections=1)
        service = cluster.get(INFERENCE_SERVICE, "default", "simple")
        skew = Skew(cluster)
        eventually(lambda: "image" not in cluster.status_schema()["properties"])

        with pytest.raises(ClusterError) as refusal:
            cluster.apply_status(service, skew.fitted(STATUS))
        assert skew.explains(refusal.value)
        kept = skew.fitted(STATUS)
        written = cluster.apply_status(service, kept)["status"]

        assert written == kept
        assert written["lastFailure"] == {"pod": "a-1", "message": "xxxx"}
        holder["status"] = newer
        live = server.request("GET", f"{DEFINITIONS}/{definition['metadata']['name']}")
        definition["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        server.request("PUT", f"{DEFINITIONS}/{definition['metadata']['name']}", definition)
        eventually(lambda: "image" in cluster.status_schema()["properties"])
        skew.clock = lambda: skew._read_at + 301
        assert cluster.apply_status(service, skew.fitted(STATUS))["status"] == STATUS
