"""
Whether an object in the cluster still is what the operator wants of it.

Compared are only the fields that the operator sets: others' fields (defaults, injected sidecars, HPA's) do not count.
What the operator set before and does not want any more is known from `managedFields`, where the API server keeps it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from charonia_operator.naming import FIELD_MANAGER, JSON
from charonia_operator.spec.quantity import Quantity

_NOT_OURS_TO_COMPARE = {"apiVersion", "kind"}
_OF_QUANTITIES = {"requests", "limits"}
_QUANTITIES = {"sizeLimit", "storage", "averageValue"}


def differs(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether `wanted` must be applied to `live`."""
    compared = {key: value for key, value in wanted.items() if key not in _NOT_OURS_TO_COMPARE}
    return not _covers(live, compared, "") or _has_leftovers(_owned(live), wanted)


def _owned(live: Mapping[str, Any]) -> JSON:
    """The fields that the operator has set, in the API server's notation."""
    for entry in live.get("metadata", {}).get("managedFields") or []:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply":
            fields: JSON = entry.get("fieldsV1", {})
            return fields
    return {}


def _covers(live: Any, wanted: Any, name: str) -> bool:
    """Whether `live` has all that `wanted` has, under a field called `name`."""
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return not wanted and live is None
        inner = "quantity" if name in _OF_QUANTITIES else ""
        return all(_covers(live.get(key), value, inner or key) for key, value in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _covers_list(live, wanted)
    if live == wanted:
        return True
    return (name == "quantity" or name in _QUANTITIES) and _canonical(live) == _canonical(wanted)


def _covers_list(live: Any, wanted: Sequence[Any]) -> bool:
    if not isinstance(live, Sequence) or isinstance(live, str):
        return not wanted and live is None
    if len(live) == len(wanted) and all(_covers(own, item, "") for own, item in zip(live, wanted, strict=True)):
        return True
    # Others may have put items of theirs between ours, where the list is one of named items.
    named = all(isinstance(item, Mapping) for item in wanted)
    return named and len(live) > len(wanted) and all(any(_covers(own, item, "") for own in live) for item in wanted)


def _canonical(value: Any) -> Any:
    try:
        return Quantity.parse(value)
    except ValueError:
        return value


def _has_leftovers(owned: Mapping[str, Any], wanted: Any) -> bool:
    """Whether the operator owns a field that it does not want any more."""
    for mark, inner in owned.items():
        kind, _, name = mark.partition(":")
        if kind == "f":
            if not isinstance(wanted, Mapping) or name not in wanted:
                return True
            if _has_leftovers(inner, wanted[name]):
                return True
        elif kind == "k":
            item = _item(wanted, json.loads(name))
            if item is None or _has_leftovers(inner, item):
                return True
        elif kind == "v" and json.loads(name) not in wanted:
            return True
    return False


def _item(wanted: Any, keys: Mapping[str, Any]) -> Any:
    """The item of a list with these keys; a key that is left out has its default."""
    if not isinstance(wanted, Sequence):
        return None
    for item in wanted:
        if all(item.get(key, value) == value for key, value in keys.items()):
            return item
    return None
