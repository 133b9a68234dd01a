"""Specs of InferenceServices from the definition's own schema, with a liking for zero values, for hypothesis."""

from typing import Any

from hypothesis import strategies as st

from tests.support.inference_services import crd_schema

_QUANTITIES = ["1", "0.5", "500m", "1000m", "1024Mi", "1Gi", "1.5Gi", "2048", "0", "1e3", "0.5Gi"]
_NAMES = ["a", "b", "c1", "x-y"]
_TEXTS = ["a", "b", "", "A_B", "0", "1.0", "true", "a,b"]
_PROBES = [
    {"httpGet": {"path": "/", "port": 8000}, "initialDelaySeconds": 0},
    {"initialDelaySeconds": 0},
    {"failureThreshold": 2},
    {"httpGet": {"path": "/v2", "port": "http", "host": "", "httpHeaders": [{"name": "A", "value": ""}]}},
]
_CHOSEN: dict[str, list[Any]] = {
    "valueFrom": [
        {"fieldRef": {"fieldPath": "metadata.name"}},
        {"secretKeyRef": {"name": "a", "key": "b", "optional": False}},
        {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}},
    ],
    "envFrom[]": [{"prefix": "", "configMapRef": {"name": "a"}}, {"secretRef": {"name": "a", "optional": False}}],
    "claims[]": [{"name": "a"}],
    "behavior": [{"scaleDown": {"stabilizationWindowSeconds": 0}}, {"scaleUp": {"selectPolicy": "Disabled"}}],
    "startup": _PROBES,
    "readiness": _PROBES,
    "liveness": _PROBES,
    "affinity": [{}, {"nodeAffinity": {}}, {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}],
    "topologySpreadConstraints[]": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "podTemplate": [
        {"spec": {"hostNetwork": False, "hostPID": False, "priority": None}},
        {"spec": {"tolerations": [{"key": ""}, {"key": "", "operator": "Exists", "value": ""}]}},
        {"spec": {"containers": [{"name": "server", "env": [{"name": "A", "value": ""}], "stdin": False, "tty": False}]}},
        {"spec": {"containers": [{"name": "side", "image": "a", "args": [], "ports": [{"containerPort": 1, "hostPort": 0}]}]}},
        {"spec": {"volumes": [{"name": "v", "emptyDir": {"medium": "", "sizeLimit": "1024Mi"}}], "subdomain": ""}},
        {"spec": {"securityContext": {"runAsUser": 0, "supplementalGroups": []}, "hostAliases": []}},
        {"spec": {"containers": [{"name": "server", "resources": {"limits": {"cpu": "1000m"}}, "workingDir": ""}]}},
        {"metadata": {"labels": {"a": ""}, "annotations": {"b": ""}}},
    ],
    "key": ["", "a", "example.com/a"],
    "from[]": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"a": ""}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "storage[]": [
        {"name": name, "mountPath": f"/{name}", "readOnly": False, **volume}
        for name, volume in {
            "claim": {"persistentVolumeClaim": {"claimName": "a", "readOnly": False}},
            "share": {"nfs": {"server": "a", "path": "/", "readOnly": False}, "subPath": ""},
            "scratch": {"emptyDir": {"medium": "", "sizeLimit": "1024Mi"}},
            "words": {"configMap": {"name": "a", "optional": False, "items": []}},
            "keys": {"secret": {"secretName": "a", "defaultMode": 0}},
            "both": {"projected": {"sources": [{"configMap": {"name": "a", "optional": False}}]}},
            "driver": {"csi": {"driver": "a.example.com", "readOnly": False, "volumeAttributes": {}}},
        }.items()
    ],
    "initContainers[]": [{"name": "first", "image": "a", "args": [], "env": [{"name": "A", "value": ""}], "tty": False}],
    "sidecars[]": [{"name": "beside", "image": "a", "command": ["a"], "securityContext": {"privileged": False}}],
}  # fmt: skip

"""Values of fields of which the schema says too little, by name; items of a list have brackets."""


def specs() -> st.SearchStrategy[dict[str, Any]]:
    """Legal by the schema; rules between fields may refuse some."""
    properties = crd_schema()["properties"]["spec"]["properties"]
    base = {"modelRepository": {"uri": "s3://bucket/models"}}
    fields = {name: _value(name, schema) for name, schema in properties.items() if name != "modelRepository"}
    repository = _value("modelRepository", properties["modelRepository"])

    @st.composite
    def spec(draw: st.DrawFn) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=4, unique=True))
        made = {name: draw(fields[name]) for name in chosen}
        return {**base, **made, **({"modelRepository": draw(repository)} if draw(st.integers(0, 3)) == 0 else {})}

    return spec()


def _value(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if name in _CHOSEN:
        return st.sampled_from(_CHOSEN[name])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from(["0", 0, 1, "50%"] if "%" in schema["pattern"] else _QUANTITIES)
    kind = schema["type"]
    if kind == "object" and "properties" in schema:
        return _map_of(schema)
    if kind == "object":
        return (
            st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), st.sampled_from(_QUANTITIES))
            if (schema["additionalProperties"].get("x-kubernetes-int-or-string"))
            else st.dictionaries(
                st.sampled_from(["a", "b", "example.com/c"]), st.sampled_from(["", "a", "1"]), max_size=2
            )
        )
    if kind == "array":
        unique = schema.get("x-kubernetes-list-type") in {"set", "map"}
        keys = schema.get("x-kubernetes-list-map-keys", [])
        by = (lambda item: tuple(item.get(key) for key in keys)) if keys else repr
        items = _value(f"{name}[]", schema["items"])
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=3, unique_by=by if unique else None)
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        low, high = schema.get("minimum", 0), schema.get("maximum", 2**31)
        return st.sampled_from([low, min(low + 1, high), schema.get("default", low)])
    return _text(schema)


def _text(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" not in schema:
        return st.sampled_from([text for text in _TEXTS if len(text) >= schema.get("minLength", 0)])
    if schema["pattern"].startswith("^[a-z0-9]([-a-z0-9.]"):
        return st.sampled_from(_NAMES)
    texts = st.from_regex(schema["pattern"], fullmatch=True)
    return texts.filter(lambda text: text.isascii() and text.isprintable() and len(text) <= schema["maxLength"])


def _map_of(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    required = schema.get("required", [])
    parts = {name: _value(name, part) for name, part in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: parts[name] for name in required},
        optional={name: part for name, part in parts.items() if name not in required},
    )
