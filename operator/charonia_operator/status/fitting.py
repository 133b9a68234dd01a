"""
A status fitted to the definition that the cluster has, which may be older than the operator.

The API server refuses a status with a field or a word that the definition lacks, as a whole.
"""

from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
_NOTHING = object()


def fitted(value: Any, schema: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """What of `value` an object with this OpenAPI schema can hold, and the paths of what it cannot."""
    left_out: list[str] = []
    kept = _fitted(value, schema, "status", left_out)
    return ({} if kept is _NOTHING else kept), left_out


def _fitted(value: Any, schema: Mapping[str, Any], path: str, left_out: list[str]) -> Any:
    kind = str(schema.get("type"))
    wrong = kind in _TYPES and not isinstance(value, _TYPES[kind])
    if wrong or ("enum" in schema and value not in schema["enum"]):
        left_out.append(path)
        return _NOTHING
    if isinstance(value, Mapping) and "properties" in schema:
        return _fitted_map(value, schema, path, left_out)
    if isinstance(value, list):
        items = [_fitted(item, schema.get("items", {}), f"{path}[]", left_out) for item in value]
        return [item for item in items if item is not _NOTHING][: schema.get("maxItems")]
    if isinstance(value, str):
        return value[: schema.get("maxLength")]
    return value


def _fitted_map(value: Mapping[str, Any], schema: Mapping[str, Any], path: str, left_out: list[str]) -> Any:
    kept = {}
    for name, inner in value.items():
        known = schema["properties"].get(name)
        if known is None:
            left_out.append(f"{path}.{name}")
            continue
        fit = _fitted(inner, known, f"{path}.{name}", left_out)
        if fit is not _NOTHING:
            kept[name] = fit
    return kept if all(name in kept for name in schema.get("required", ())) else _NOTHING
