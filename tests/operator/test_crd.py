"""The schema: every rule has an object that keeps it and one that breaks it, on a real API server."""

import copy
import dataclasses
import re
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import yaml

from charonia_operator.naming import API_VERSION, GROUP, VERSION
from charonia_operator.spec.reading import Bounds, field_key
from charonia_operator.spec.service import Spec
from tests.support.api_server import RefusedError
from tests.support.inference_services import CRD, crd_schema

REPOSITORY = {"uri": "s3://bucket/models"}
CLAIM = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "models"}}
METRICS = [{"type": "CPU", "target": 70}]
GATEWAY = {"parentRefs": [{"name": "public"}]}


def repository(**fields):
    return {"modelRepository": REPOSITORY | fields}


def cache(**fields):
    return repository(cache={"type": "PersistentVolumeClaim", "persistentVolumeClaim": fields})


def scaling(**fields):
    return {"autoscaling": {"maxReplicas": 4, "metrics": METRICS} | fields}


def limited(**limits):
    return {"limits": limits}


RULES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    # message of the rule → specs that keep it, specs that break it
    "credentials.source Secret needs secretRef": (
        [repository(credentials={"source": "Secret", "secretRef": {"name": "a"}})],
        [repository(credentials={"source": "Secret"})],
    ),
    "secretRef is not used with this credentials.source": (
        [repository(credentials={"source": "Anonymous"})],
        [repository(credentials={"source": "Anonymous", "secretRef": {"name": "a"}})],
    ),
    "give claimName of an existing claim or size of a new one": ([cache(size="1Gi")], [cache(storageClassName="fast")]),
    "give claimName or size, not both": ([cache(claimName="a")], [cache(claimName="a", size="1Gi")]),
    "cache.type PersistentVolumeClaim needs cache.persistentVolumeClaim": (
        [repository(cache=CLAIM)],
        [repository(cache={"type": "PersistentVolumeClaim"})],
    ),
    "cache.type Memory needs cache.sizeLimit": (
        [repository(cache={"type": "Memory", "sizeLimit": "1Gi"})],
        [repository(cache={"type": "Memory"})],
    ),
    "do not put credentials in the URI; use credentials.secretRef": (
        [repository(uri="s3://bucket/a@b")],
        [repository(uri="s3://key:secret@bucket/a"), repository(uri="oss://key@bucket/a")],
    ),
    "mountPath must not contain '..' nor be / or /dev/shm": (
        [repository(mountPath="/srv/models")],
        [repository(mountPath="/srv/../models"), repository(mountPath="/dev/shm")],
    ),
    "integrity Manifest needs manifest": (
        [repository(integrity="Manifest", manifest="SHA256SUMS")],
        [repository(integrity="Manifest")],
    ),
    "sync.mode Poll needs an object store: models on a claim are read where they are": (
        [repository(sync={"mode": "Poll"}), repository(uri="pvc://claim")],
        [repository(uri="pvc://claim/models", sync={"mode": "Poll"})],
    ),
    "a pinned revision and sync.mode Poll contradict each other": (
        [repository(revision="sha256:" + "0" * 64)],
        [repository(revision="sha256:" + "0" * 64, sync={"mode": "Poll"})],
    ),
    "endpoint and credentials have no meaning for pvc://": (
        [repository(endpoint="minio:9000")],
        [repository(uri="pvc://claim", endpoint="minio:9000"), repository(uri="pvc://claim", credentials={})],
    ),
    "uri must name a bucket or a claim": ([repository(uri="oss://bucket")], [repository(uri="oss:///models")]),
    "uri must name a storage account and a container": (
        [repository(uri="as://account/container"), repository(uri="gs://bucket/models")],
        [repository(uri="as://account"), repository(uri="as://account/")],
    ),
    "uri must not contain '.' or '..' as a folder": (
        [repository(uri="s3://bucket/a..b/.c/d")],
        [repository(uri="s3://bucket/../a"), repository(uri="s3://bucket/a/.")],
    ),
    "command is for type Custom: add flags to the generated command line with args": (
        [{"server": {"command": ["a"]}}, {"server": {"type": "Custom", "command": ["a"]}}],
        [{"server": {"type": "Charonia", "command": ["a"]}}],
    ),
    "type Triton needs image": (
        [{"server": {"type": "Triton", "image": "mirror/triton:25.03"}}],
        [{"server": {"type": "Triton"}}],
    ),
    "type Custom needs image or command": (
        [{"server": {"type": "Custom", "image": "a"}}],
        [{"server": {"type": "Custom"}}],
    ),
    "with command, name the models in it: loadModels is for the generated command line": (
        [{"server": {"loadModels": ["a"]}}],
        [{"server": {"loadModels": ["a"], "command": ["tritonserver"]}}],
    ),
    "loadModels needs modelControl Auto or Explicit": (
        [{"server": {"loadModels": ["a"], "modelControl": "Explicit"}}],
        [{"server": {"loadModels": ["a"], "modelControl": "Poll"}}],
    ),
    "migProfile and resourceName exclude each other": (
        [{"gpu": {"migProfile": "1g.5gb"}}],
        [{"gpu": {"migProfile": "1g.5gb", "resourceName": "nvidia.com/gpu.shared"}}],
    ),
    "give requirements or requirementsPath": ([{"python": {"requirementsPath": "r.txt"}}], [{"python": {}}]),
    "requireHashes: every requirement needs --hash": (
        [{"python": {"requireHashes": True, "requirements": ["a==1 --hash=sha256:00"]}}],
        [{"python": {"requireHashes": True, "requirements": ["a==1"]}}],
    ),
    "minReplicas must not exceed maxReplicas": ([scaling(minReplicas=4)], [scaling(minReplicas=5)]),
    "name is for type Custom only, and needed there": (
        [scaling(metrics=[{"type": "Custom", "name": "a", "target": "1"}])],
        [
            scaling(metrics=[{"type": "Custom", "target": "1"}]),
            scaling(metrics=[{"type": "CPU", "name": "a", "target": 1}]),
        ],
    ),
    "the target of CPU, Memory and GPUUtilization is a whole percentage": (
        [scaling(metrics=[{"type": "GPUUtilization", "target": 100}])],
        [scaling(metrics=[{"type": "CPU", "target": "70m"}]), scaling(metrics=[{"type": "Memory", "target": 0}])],
    ),
    "ports must differ": ([{"networking": {"ports": {"http": 9000}}}], [{"networking": {"ports": {"http": 8001}}}]),
    "use gateway or ingress, not both": (
        [{"networking": {"gateway": GATEWAY}}, {"networking": {"ingress": {}}}],
        [{"networking": {"gateway": GATEWAY, "ingress": {}}}],
    ),
    "tls is the Ingress's: a Gateway brings its own certificates": (
        [{"networking": {"ingress": {}, "tls": {"secretRef": {"name": "a"}}}}],
        [{"networking": {"gateway": GATEWAY, "tls": {"secretRef": {"name": "a"}}}}],
    ),
    "hostnames need a gateway or an ingress that answers for them": (
        [{"networking": {"gateway": GATEWAY, "hostnames": ["a.example.com"]}}],
        [{"networking": {"hostnames": ["a.example.com"]}}, {"networking": {"grpcHostnames": ["a.example.com"]}}],
    ),
    "access.type Token needs tokenSecretRefs": (
        [{"access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]}}],
        [{"access": {"type": "Token"}}],
    ),
    "preStopDelaySeconds must be below terminationGracePeriodSeconds": (
        [{"drain": {"preStopDelaySeconds": 0, "terminationGracePeriodSeconds": 1}}],
        [{"drain": {"preStopDelaySeconds": 60}}],
    ),
    "minAvailable and maxUnavailable exclude each other": (
        [{"disruption": {"minAvailable": "50%"}}],
        [{"disruption": {"minAvailable": 1, "maxUnavailable": 1}}],
    ),
    "give exactly one of persistentVolumeClaim, nfs, emptyDir, configMap, secret, projected, csi, ephemeral": (
        [{"storage": [{"name": "a", "mountPath": "/a", "emptyDir": {}}]}],
        [
            {"storage": [{"name": "a", "mountPath": "/a"}]},
            {"storage": [{"name": "a", "mountPath": "/a", "emptyDir": {}, "secret": {"secretName": "b"}}]},
        ],
    ),
    "that name of a volume is reserved": (
        [{"storage": [{"name": "tmp-two", "mountPath": "/a", "emptyDir": {}}]}],
        [{"storage": [{"name": "tmp", "mountPath": "/a", "emptyDir": {}}]}],
    ),
    "a storage entry lies on modelRepository.mountPath": (
        [{"storage": [{"name": "a", "mountPath": "/data", "emptyDir": {}}]}],
        [{"storage": [{"name": "a", "mountPath": "/models", "emptyDir": {}}]}],
    ),
    "/dev/shm is given twice: by sharedMemory and by storage": (
        [{"storage": [{"name": "a", "mountPath": "/dev/shm", "emptyDir": {"medium": "Memory"}}]}],
        [
            {
                "storage": [{"name": "a", "mountPath": "/dev/shm", "emptyDir": {"medium": "Memory"}}],
                "sharedMemory": {"size": "1Gi"},
            }
        ],
    ),
    **{
        f"that name of a container of {field} is reserved: change the operator's own with podTemplate": (
            [{field: [{"name": "helper", "image": "a"}]}],
            [{field: [{"name": name, "image": "a"}]} for name in ("server", "model-watch")],
        )
        for field in ("sidecars", "initContainers")
    },
    "set modelRepository, storage that holds models, or a server.image that brings them": (
        [
            {"modelRepository": None, "server": {"image": "a"}},
            {"modelRepository": None, "storage": [{"name": "a", "mountPath": "/models", "emptyDir": {}}]},
        ],
        [{"modelRepository": None}],
    ),
    "sharedMemory.size must be below resources.limits.memory: what lies in /dev/shm counts as memory": (
        [{"sharedMemory": {"size": "1Gi"}, "resources": limited(memory="2Gi")}, {"sharedMemory": {"size": "1Gi"}}],
        [{"sharedMemory": {"size": "2048Mi"}, "resources": limited(memory="2Gi")}],
    ),
    "declare GPUs in gpu or in resources.limits, not in both": (
        [{"gpu": {"count": 0}, "resources": limited(**{"nvidia.com/gpu": 1})}],
        [{"gpu": {"count": 1}, "resources": limited(**{"nvidia.com/gpu": 1})}],
    ),
    "credentials.source WorkloadIdentity needs serviceAccountName": (
        [repository(credentials={"source": "WorkloadIdentity"}) | {"serviceAccountName": "a"}],
        [repository(credentials={"source": "WorkloadIdentity"})],
    ),
    "access.type Token is a matter of the generated command line: leave server.command out": (
        [{"access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]}, "server": {"args": ["--log-verbose=1"]}}],
        [{"access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]}, "server": {"command": ["tritonserver"]}}],
    ),
    "access.type Token needs a server of type Charonia": (
        [
            {
                "access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]},
                "server": {"type": "Charonia", "image": "a"},
            }
        ],
        [{"access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]}, "server": {"type": "Triton", "image": "a"}}],
    ),
    "a relative python.requirementsPath lies in the model repository: set modelRepository": (
        [{"modelRepository": None, "server": {"image": "a"}, "python": {"requirementsPath": "/r.txt"}}],
        [{"modelRepository": None, "server": {"image": "a"}, "python": {"requirementsPath": "r.txt"}}],
    ),
}
TRANSITIONS = {
    "storageClassName is immutable": (
        cache(size="1Gi", storageClassName="a"),
        cache(size="2Gi", storageClassName="a"),
        cache(size="1Gi", storageClassName="b"),
    ),
    "size cannot shrink": (cache(size="2Gi"), cache(size="3Gi"), cache(size="1024Mi")),
    "accessModes is immutable": (
        cache(size="1Gi", accessModes=["ReadWriteOnce", "ReadWriteMany"]),
        cache(size="1Gi", accessModes=["ReadWriteMany", "ReadWriteOnce"]),
        cache(size="1Gi", accessModes=["ReadWriteMany"]),
    ),
}
NAME_RULE = "metadata.name must be a DNS label of at most 48 characters that starts with a letter"
SCHEMA_BREAKERS = [
    {"replicas": -1},
    {"gpu": {"count": 65}},
    {"modelRepository": {}},
    repository(uri="http://bucket/a"),
    repository(revision="latest"),
    {"networking": {"ports": {"http": 80}}},
    {"sharedMemory": {"size": "much"}},
    {"autoscaling": {"maxReplicas": 3}},
    {"access": {"type": "Basic"}},
]


def create(server, spec, name="a"):
    whole = {key: value for key, value in ({"modelRepository": REPOSITORY} | spec).items() if value is not None}
    body = {"apiVersion": API_VERSION, "kind": "InferenceService", "metadata": {"name": name}, "spec": whole}
    path = f"/apis/{API_VERSION}/namespaces/default/inferenceservices?dryRun=All&fieldValidation=Strict"
    return server.request("POST", path, body)


def rules_of(schema):
    for rule in schema.get("x-kubernetes-validations", []):
        yield rule["message"]
    for part in [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]:
        yield from rules_of(part)


def test_every_rule_has_its_cases():
    assert set(rules_of(crd_schema())) == RULES.keys() | TRANSITIONS.keys() | {NAME_RULE}


@pytest.mark.parametrize("message", RULES)
def test_a_rule(api_server, message):
    kept, broken = RULES[message]
    for spec in kept:
        create(api_server, spec)
    for spec in broken:
        with pytest.raises(RefusedError, match=re.escape(message)):
            create(api_server, spec)


@pytest.mark.parametrize("message", TRANSITIONS)
def test_a_rule_of_changes(api_server, namespace, message):
    before, kept, broken = TRANSITIONS[message]
    body = {"apiVersion": API_VERSION, "kind": "InferenceService", "metadata": {"name": "a", "namespace": namespace}}
    api_server.apply(body | {"spec": before})

    with pytest.raises(RefusedError, match=re.escape(message)):
        api_server.apply(body | {"spec": broken})
    api_server.apply(body | {"spec": kept})


@pytest.mark.parametrize("name", ["1a", "a.b", "a" * 49])
def test_names(api_server, name):
    with pytest.raises(RefusedError, match=re.escape(NAME_RULE)):
        create(api_server, {}, name)
    create(api_server, {}, "a" * 48)


@pytest.mark.parametrize("spec", SCHEMA_BREAKERS, ids=str)
def test_the_schema_refuses(api_server, spec):
    with pytest.raises(RefusedError, match="422"):
        create(api_server, spec)


def test_a_minimal_service_gets_its_defaults(api_server):
    spec = create(api_server, {})["spec"]

    assert spec["replicas"] == 1
    assert spec["networking"]["ports"] == {"http": 8000, "grpc": 8001, "metrics": 8002}


def test_group_and_version():
    crd = yaml.safe_load(CRD.read_text())

    assert crd["spec"]["group"] == GROUP
    assert [version["name"] for version in crd["spec"]["versions"]] == [VERSION]


def described(schema, path=""):
    for key, part in schema.get("properties", {}).items():
        yield f"{path}.{key}", "description" in part
        yield from described(part, f"{path}.{key}")
        yield from described(part.get("items", {}), f"{path}.{key}[]")


def test_every_field_is_described():
    fields = dict(described(crd_schema()))
    head = {".apiVersion", ".kind", ".metadata"}

    assert [path for path, has in fields.items() if not has and path not in head] == []


def read_of(hint, path):
    """The fields that the operator reads, with what it says of them."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        (inner,) = (each for each in arguments if each is not types.NoneType)
        yield from read_of(inner, path)
    elif origin is Annotated:
        yield path, arguments[1]
    elif origin is Literal:
        yield path, set(arguments) - {""}
    elif origin is tuple:
        yield from read_of(arguments[0], path)
    elif dataclasses.is_dataclass(hint):
        yield path, None
        hints = get_type_hints(hint, include_extras=True)
        for field in dataclasses.fields(hint):
            yield from read_of(hints[field.name], f"{path}.{field_key(field.name)}")
    else:
        yield path, None


def declared(schema, path):
    yield path, schema
    item = schema.get("items", {})
    if "properties" not in item and "enum" in item:
        yield path, item
    handed_on = (".tolerations", ".env", ".envFrom", ".sidecars", ".initContainers")
    opaque = path.endswith(handed_on)
    for key, part in {} if opaque else {**schema.get("properties", {}), **item.get("properties", {})}.items():
        yield from declared(part, f"{path}.{key}")


def test_the_schema_and_the_operator_agree():
    """Each field that one knows the other knows, with the same bounds and choices."""
    schema = dict(declared(crd_schema()["properties"]["spec"], "spec"))
    read = dict(read_of(Spec, "spec"))

    assert schema.keys() == read.keys()
    for path, says in read.items():
        if isinstance(says, Bounds):
            assert (schema[path]["minimum"], schema[path]["maximum"]) == (says.minimum, says.maximum), path
        elif isinstance(says, set):
            assert set(schema[path]["enum"]) == says, path


def test_the_schemas_defaults_are_the_operators():
    """What the API server fills in is what the operator takes for not set."""
    from charonia_operator.spec.reading import departures, read

    def filled(schema, body):
        for key, part in schema.get("properties", {}).items():
            if key not in body and "default" in part:
                body[key] = copy.deepcopy(part["default"])
            if isinstance(body.get(key), dict):
                filled(part, body[key])
        return body

    spec = filled(crd_schema()["properties"]["spec"], {"modelRepository": dict(REPOSITORY)})

    assert departures(read(Spec, spec)) == {"modelRepository": {"uri": REPOSITORY["uri"]}}
