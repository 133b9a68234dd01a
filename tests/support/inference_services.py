"""InferenceServices for tests: as the API server would give them, and read."""

from pathlib import Path
from typing import Any

import yaml

from charonia_operator.naming import API_VERSION
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

SETTINGS = Settings(runtime_image="example.com/runtime:1", runtime_gpu_image="example.com/runtime:1-gpu")
CRD = Path(__file__).resolve().parents[2] / "crds/inferenceservice.yaml"


def a_body(name: str = "simple", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """The object as it is in the cluster; the model repository is there unless it is given."""
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "generation": 1},
        "spec": {"modelRepository": {"uri": "s3://bucket/models"}, **spec},
    }


def a_service(name: str = "simple", **spec: Any) -> InferenceServiceSpec:
    return InferenceServiceSpec.parse(a_body(name, **spec))


def body_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with what the API server adds to it."""
    metadata = {"namespace": "default", "uid": "00000000-0000-0000-0000-000000000001", "generation": 1}
    return manifest | {"metadata": metadata | manifest["metadata"]}


def crd_schema() -> dict[str, Any]:
    crd = yaml.safe_load(CRD.read_text())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def faults_of(value: Any, schema: dict[str, Any], path: str = "status") -> list[str]:
    """What the API server would refuse or silently drop: unknown fields, wrong types, what no enumeration has."""
    if not isinstance(value, _TYPES[schema["type"]]):
        return [f"{path} is no {schema['type']}"]
    if isinstance(value, list):
        return [fault for item in value for fault in faults_of(item, schema["items"], f"{path}[]")]
    if isinstance(value, dict):
        known = schema.get("properties", {})
        missing = [f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        unknown = [f"{path}.{name} is unknown" for name in value if name not in known]
        inner = (faults_of(own, known[name], f"{path}.{name}") for name, own in value.items() if name in known)
        return [*missing, *unknown, *(fault for faults in inner for fault in faults)]
    accepted = schema.get("enum")
    long = isinstance(value, str) and len(value) > schema.get("maxLength", len(value))
    return [f"{path} is {value!r}"] if long or (accepted and value not in accepted) else []
