"""Kubernetes' strategic merge, as far as pod templates need it: maps merge, named lists merge by their key."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

_MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "claims": "name",
}
"""Name of a list in a pod → the key by which its items are the same one. Other lists are replaced as a whole."""
_DIRECTIVE = "$patch"


def merge(base: Any, patch: Any) -> Any:
    """`base` with `patch` laid over it: null removes, `$patch: replace` and `$patch: delete` do what they say."""
    if not isinstance(base, Mapping) or not isinstance(patch, Mapping) or patch.get(_DIRECTIVE) == "replace":
        return _without_directives(patch)
    merged = deepcopy(dict(base))
    for name, value in patch.items():
        if name == _DIRECTIVE:
            continue
        if value is None:
            merged.pop(name, None)
        elif name in _MERGE_KEYS and _is_list(merged.get(name)) and _is_list_of_maps(value):
            merged[name] = _merge_list(merged[name], value, _MERGE_KEYS[name])
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def _merge_list(base: Sequence[Any], patch: Sequence[Any], key: str) -> list[Any]:
    merged = list(base)
    for item in patch:
        index = next((at for at, known in enumerate(merged) if known.get(key) == item.get(key)), None)
        if item.get(_DIRECTIVE) == "delete":
            merged = [known for known in merged if known.get(key) != item.get(key)]
        elif index is None:
            merged.append(_without_directives(item))
        else:
            merged[index] = merge(merged[index], item)
    return merged


def _without_directives(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_directives(own) for key, own in value.items() if key != _DIRECTIVE and own is not None}
    if _is_list(value):
        return [_without_directives(item) for item in value]
    return value


def _is_list_of_maps(value: Any) -> bool:
    """What is none is the API server's to refuse."""
    return _is_list(value) and all(isinstance(item, Mapping) for item in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
