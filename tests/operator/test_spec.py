import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_operator.spec.quantity import Quantity, Share
from charonia_operator.spec.reading import SpecError
from charonia_operator.spec.service import InferenceServiceSpec
from tests.support.inference_services import a_body, a_service


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"replicas": "2"}, "spec.replicas: must be a whole number"),
        ({"replicas": True}, "spec.replicas: must be a whole number"),
        ({"replicas": 1001}, "spec.replicas: must be from 0 to 1000"),
        ({"server": {"args": "a"}}, "spec.server.args: must be a list"),
        ({"server": {"args": ["a", 1]}}, r"spec.server.args\[1\]: must be a string"),
        ({"server": {"env": [1]}}, r"spec.server.env\[0\]: must be a mapping"),
        ({"sharedMemory": {}}, "spec.sharedMemory.size: is required"),
        ({"sharedMemory": {"size": "much"}}, "spec.sharedMemory.size: must be a quantity"),
        ({"scheduling": {"spread": "Rack"}}, "spec.scheduling.spread: must be one of None, Host, Zone"),
        ({"modelRepository": {"uri": "http://a"}}, "spec.modelRepository: uri must be"),
        ({"modelRepository": {"uri": "as://account"}}, "spec.modelRepository: uri must name a storage account and"),
        ({"modelRepository": None}, "spec: set modelRepository"),
        ({"drain": {"preStopDelaySeconds": 60}}, "spec.drain: preStopDelaySeconds"),
        ({"python": {}}, "spec.python: give requirements"),
        ({"disruption": {"minAvailable": "half"}}, "spec.disruption.minAvailable: must be a whole number or a percentage"),
        ({"disruption": {"minAvailable": 1, "maxUnavailable": 1}}, "spec.disruption: minAvailable and maxUnavailable exclude"),
        ({"networking": {"ports": {"http": 8001}}}, "spec.networking.ports: http, grpc and metrics must differ"),
        ({"modelRepository": {"uri": "s3://b", "integrity": "Manifest"}}, "spec.modelRepository: integrity Manifest needs"),
        ({"networking": {"service": {"labels": {"a": 1}}}}, r"spec.networking.service.labels\[a\]: must be a string"),
    ],
)  # fmt: skip
def test_faults_are_told_with_their_path(spec, path):
    with pytest.raises(SpecError, match=path):
        InferenceServiceSpec.parse(a_body(**spec))


@pytest.mark.parametrize("body", [{}, {"metadata": {"name": "a", "namespace": "b", "uid": "c"}}, {"spec": 1}])
def test_bodies_that_are_no_service(body):
    with pytest.raises(SpecError):
        InferenceServiceSpec.parse(body)


def test_null_is_not_set():
    assert a_service(gpu=None, replicas=None).spec.replicas == 1


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1000m", "1"), ("0.5", "500m"), (2, "2"), ("1e3", None), ("1000", "1k"),
        ("1500", "1500"), ("0", "0"), ("1Gib", None), ("-1", None), (True, None), ("500M", "500M"), ("0.1m", "1m"),
    ],
)  # fmt: skip
def test_quantities(given, canonical):
    """As the API server writes them back, where it matters."""
    if canonical is None:
        with pytest.raises(ValueError, match="quantity"):
            Quantity.parse(given)
    else:
        assert Quantity.parse(given) == canonical


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_canonical_quantities_stay(count, suffix):
    once = Quantity.parse(f"{count}{suffix}")

    assert Quantity.parse(once) == once
    assert once.number() == Quantity.parse(once).number()


def test_shares():
    assert Share.parse("25%").json() == "25%"
    assert Share.parse(2).json() == 2


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 5}, {"suspend": True}, {"disruption": {"mode": "Disabled"}}, {"server": {}}, {"drain": {}},
        {"autoscaling": {"maxReplicas": 2, "metrics": [{"type": "CPU", "target": 70}]}},
        {"networking": {"service": {"type": "NodePort"}}}, {"server": {"modelControl": "Auto"}},
    ],
)  # fmt: skip
def test_changes_that_leave_pods_alone(spec):
    assert a_service(**spec).fingerprint() == a_service().fingerprint()


@pytest.mark.parametrize(
    "spec",
    [
        {"server": {"args": ["a"]}}, {"gpu": {"count": 1}}, {"modelRepository": {"uri": "s3://bucket/other"}},
        {"networking": {"pathPrefix": "/a"}}, {"podMetadata": {"annotations": {"restart": "1"}}},
        {"access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]}},
    ],
)  # fmt: skip
def test_changes_that_pods_see(spec):
    assert a_service(**spec).fingerprint() != a_service().fingerprint()


@pytest.mark.parametrize(
    ("networking", "prefix"),
    [
        ({}, ""), ({"pathPrefix": "/"}, ""), ({"pathPrefix": "/a"}, "/a"), ({"ingress": {}}, "/api/predict/simple"),
        ({"ingress": {}, "pathPrefix": "/"}, ""), ({"gateway": {"parentRefs": [{"name": "a"}]}}, "/api/predict/simple"),
    ],
)  # fmt: skip
def test_the_prefix_of_paths(networking, prefix):
    assert a_service(networking=networking).path_prefix == prefix


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        ({}, "Charonia"), ({"image": "registry.example.com/mirror/runtime:0.1.0"}, "Charonia"),
        ({"image": "nvcr.io/nvidia/tritonserver:25.03-py3"}, "Triton"), ({"image": "tritonserver"}, "Triton"),
        ({"image": "mirror/tritonserver@sha256:00"}, "Triton"), ({"image": "example.com/tritonserver-tools:1"}, "Charonia"),
        ({"image": "mirror/triton:25.03", "type": "Triton"}, "Triton"), ({"command": ["a"]}, "Custom"),
        ({"image": "nvcr.io/nvidia/tritonserver:25.03-py3", "command": ["tritonserver"]}, "Custom"),
        ({"image": "a", "type": "Custom"}, "Custom"), ({"image": "a/tritonserver:1", "type": "Charonia"}, "Charonia"),
    ],
)  # fmt: skip
def test_the_kind_of_server(server, kind):
    assert a_service(server=server).spec.server.kind == kind


@pytest.mark.parametrize(
    "spec",
    [
        {"server": {"type": "Triton"}}, {"server": {"type": "Custom"}},
        {"server": {"type": "Triton", "image": "a", "command": ["a"]}},
        {
            "server": {"image": "nvcr.io/nvidia/tritonserver:25.03-py3"},
            "access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]},
        },
    ],
)  # fmt: skip
def test_fields_that_do_not_go_with_the_kind_of_server(spec):
    with pytest.raises(SpecError):
        a_service(**spec)


@pytest.mark.parametrize("disruption", [{"minAvailable": 1}, {"maxUnavailable": 1}, {}])
def test_one_bound_of_a_disruption_is_enough(disruption):
    assert a_service(disruption=disruption).spec.disruption


def test_who_asks_the_bucket_where_nobody_says():
    assert a_service().spec.model_repository.credentials.source == "Auto"
