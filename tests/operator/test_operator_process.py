"""The operator's process against a real API server, with the chart's rights and no others."""

import pytest

from charonia_operator.naming import API_VERSION
from tests.support.operator_process import OperatorProcess, eventually

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", autouse=True)
def operator(api_server, tmp_path_factory):
    """One for all namespaces and tests."""
    with OperatorProcess(api_server, "", tmp_path_factory.mktemp("operator") / "log") as process:
        yield process


def test_from_creation_to_ready(cluster):
    cluster.apply(gpu={"count": 1}, sharedMemory={"size": "1Gi"}, replicas=2)

    eventually(cluster.is_ready)
    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 2)

    assert sorted(cluster.names("poddisruptionbudgets", "policy/v1")) == ["simple"]
    assert cluster.condition("WorkloadAvailable")["status"] == "True"
    assert cluster.service()["status"]["urls"][0]["url"] == f"http://simple.{cluster.namespace}.svc:8000"


def test_it_marks_the_service_with_nothing(cluster):
    """No finalizer, no annotation: the operator's absence hurts nobody."""
    cluster.apply()
    eventually(cluster.is_ready)

    metadata = cluster.service()["metadata"]

    assert "finalizers" not in metadata
    assert "annotations" not in metadata
    assert {entry["manager"] for entry in metadata["managedFields"]} == {"test", "charonia-operator"}


def test_changes_reach_the_children(cluster):
    cluster.apply(replicas=2)
    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 2)

    cluster.apply(replicas=2, server={"args": ["--log-verbose=1"]})

    def is_changed():
        containers = cluster.get("deployments")["spec"]["template"]["spec"]["containers"]
        return "--log-verbose=1" in containers[0]["command"]

    eventually(is_changed)
    eventually(lambda: len(cluster.names("controllerrevisions")) == 1)
    eventually(lambda: cluster.condition("Reconciling")["status"] == "False")


def test_what_is_not_wanted_any_more_is_pruned(cluster):
    cluster.apply(networking={"ingress": {}, "hostnames": ["a.example.com"], "grpcHostnames": ["b.example.com"]})
    eventually(lambda: cluster.names("ingresses", "networking.k8s.io/v1") == ["simple", "simple-grpc"])

    cluster.apply(networking={"ingress": {}, "hostnames": ["a.example.com"]})

    eventually(lambda: cluster.names("ingresses", "networking.k8s.io/v1") == ["simple"])


def test_scaling_restarts_no_pod(cluster):
    cluster.apply()
    eventually(cluster.is_ready)
    before = set(cluster.names("pods", "v1"))

    cluster.merge(cluster.path("inferenceservices", "simple/scale", API_VERSION), {"spec": {"replicas": 3}})

    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 3)
    assert before < set(cluster.names("pods", "v1"))


def test_the_autoscaler_scales_through_the_scale_subresource(cluster):
    """It wants its minimum without any metric."""
    metrics = [{"type": "CPU", "target": 70}]
    cluster.apply(autoscaling={"minReplicas": 3, "maxReplicas": 5, "metrics": metrics})

    eventually(lambda: cluster.service()["spec"]["replicas"] == 3, 60)
    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 3)


@pytest.mark.parametrize(
    ("plural", "group", "change", "look"),
    [
        ("deployments", "apps/v1", {"spec": {"replicas": 7}}, lambda body: body["spec"]["replicas"] == 1),
        ("services", "v1", {"spec": {"selector": None}}, lambda body: body["spec"].get("selector")),
        (
            "deployments",
            "apps/v1",
            {"metadata": {"labels": {"app.kubernetes.io/name": "other"}}},
            lambda body: body["metadata"]["labels"]["app.kubernetes.io/name"] == "inferenceservice",
        ),
    ],
)
def test_drift_is_repaired(cluster, plural, group, change, look):
    cluster.apply()
    eventually(cluster.is_ready)

    cluster.merge(cluster.path(plural, "simple", group), change)

    eventually(lambda: look(cluster.get(plural, "simple", group)), 5)


def test_others_fields_stay(cluster):
    cluster.apply()
    eventually(cluster.is_ready)
    mark = {"metadata": {"annotations": {"example.com/mark": "1"}}}

    cluster.merge(cluster.path("deployments", "simple"), {"spec": {"template": mark}})
    eventually(lambda: cluster.service()["status"]["observedGeneration"] == 1)
    cluster.quiet()

    template = cluster.get("deployments")["spec"]["template"]
    assert template["metadata"]["annotations"]["example.com/mark"] == "1"


def test_a_deleted_child_comes_back(cluster):
    cluster.apply()
    eventually(cluster.is_ready)
    before = cluster.get("services", "simple", "v1")["metadata"]["uid"]

    cluster.delete("services", "simple", "v1")

    eventually(lambda: cluster.get("services", "simple", "v1")["metadata"]["uid"] != before, 10)


def test_deletion_leaves_nothing(cluster):
    cluster.apply(
        replicas=2,
        networking={"ingress": {}},
        autoscaling={"maxReplicas": 3, "metrics": [{"type": "CPU", "target": 70}]},
        modelRepository={
            "uri": "s3://bucket/models",
            "cache": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"size": "1Gi"}},
        },
    )
    eventually(lambda: cluster.names("persistentvolumeclaims", "v1"))
    eventually(lambda: cluster.names("horizontalpodautoscalers", "autoscaling/v2"))

    cluster.delete("inferenceservices", "simple", API_VERSION)

    kinds = [
        ("deployments", "apps/v1"), ("controllerrevisions", "apps/v1"), ("services", "v1"), ("pods", "v1"),
        ("persistentvolumeclaims", "v1"), ("horizontalpodautoscalers", "autoscaling/v2"),
        ("poddisruptionbudgets", "policy/v1"), ("ingresses", "networking.k8s.io/v1"),
    ]  # fmt: skip
    for plural, group in kinds:
        eventually(lambda plural=plural, group=group: not cluster.names(plural, group), 60)


def test_a_name_that_is_taken(cluster):
    """Somebody else's Service stays as it is, and the status says so."""
    spec = {"ports": [{"port": 80}], "selector": {"app": "other"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "simple"}, "spec": spec}
    cluster.server.request("POST", cluster.path("services", "", "v1"), service)

    cluster.apply()

    eventually(lambda: cluster.condition("Stalled").get("reason") == "NameConflict")
    assert cluster.get("services", "simple", "v1")["spec"]["selector"] == {"app": "other"}
    assert "Service simple" in cluster.condition("Stalled")["message"]


def test_a_pod_template_that_cannot_be(cluster):
    cluster.apply(podTemplate={"spec": {"containers": [{"name": "server", "ports": [{"containerPort": 99999}]}]}})

    eventually(lambda: cluster.condition("Stalled").get("reason") == "SpecInvalid")
    assert "containerPort" in cluster.condition("Stalled")["message"]

    cluster.apply()

    eventually(cluster.is_ready)


def test_gpus_that_are_not_there(cluster):
    cluster.apply(gpu={"count": 32})

    eventually(lambda: cluster.condition("Stalled").get("reason") == "InsufficientGPU")
    assert "Insufficient nvidia.com/gpu" in cluster.condition("Ready")["message"]
    assert cluster.condition("WorkloadAvailable")["reason"] == "InsufficientGPU"


def test_a_cluster_without_gateways(cluster):
    """The service is served in the cluster; the route's condition says what is missing."""
    cluster.apply(networking={"gateway": {"parentRefs": [{"name": "public"}]}})

    eventually(cluster.is_ready)

    assert cluster.condition("RouteReady")["reason"] == "CRDMissing"


def test_suspension(cluster):
    cluster.apply()
    eventually(cluster.is_ready)

    cluster.apply(suspend=True)

    eventually(lambda: cluster.condition("Ready")["reason"] == "Suspended")
    eventually(lambda: not cluster.names("pods", "v1"), 60)
    assert cluster.service()["status"]["phase"] == "Suspended"


def test_kubectl_replace(cluster):
    """Nothing is kept in the object that a replacement could lose."""
    cluster.apply()
    eventually(cluster.is_ready)
    before = cluster.names("pods", "v1")
    bare = cluster.service()
    bare["metadata"] = {key: bare["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
    del bare["status"]

    cluster.server.request("PUT", cluster.path("inferenceservices", "simple", API_VERSION), bare)
    cluster.quiet()

    assert cluster.names("pods", "v1") == before
    assert cluster.is_ready()


def test_the_status_is_rebuilt_when_it_is_lost(cluster):
    cluster.apply()
    eventually(cluster.is_ready)
    path = cluster.path("inferenceservices", "simple/status", API_VERSION)

    cluster.merge(path, {"status": None})

    eventually(cluster.is_ready, 10)


def test_no_request_is_refused(cluster, operator):
    """Everything that the tests above made the operator do is within the chart's rules."""
    cluster.apply()
    eventually(cluster.is_ready)

    assert "Forbidden" not in operator.log()
    assert "forbidden" not in operator.log()
    assert "Traceback" not in operator.log()
