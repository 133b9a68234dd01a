"""
Whether an object in the cluster still is what the operator made of it.

Of each child the store keeps an imprint: the part of the object that the operator has set, as the API server keeps it.
After an apply the imprint is remembered together with what was wanted: as long as neither changes, nothing is applied,
however the API server, its defaults and its webhooks spell what was asked for.

An operator that has just started remembers nothing. It compares values: others' fields (defaults, injected sidecars)
do not count, and a field at its zero value (`false`, 0, "") is the same as one that is absent.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charonia_operator.naming import FIELD_MANAGER, JSON
from charonia_operator.spec.quantity import Quantity

_WHICH_OBJECT = {"apiVersion", "kind", "name", "namespace"}
"""Said in every apply, and owned by no one."""
_OF_QUANTITIES = {"requests", "limits"}
_QUANTITIES = {"sizeLimit", "storage", "averageValue"}


@dataclass(frozen=True, slots=True)
class Imprint:
    """The part of an object that the operator has set: `fields` in the API server's notation, and their values."""

    fields: JSON
    values: Any

    @classmethod
    def of(cls, live: Mapping[str, Any]) -> "Imprint":
        """Take it from an object as the API server gives it, with its `managedFields`."""
        fields = _owned(live)
        return cls(fields, _part(live, fields))

    def differs(self, wanted: Mapping[str, Any]) -> bool:
        """Whether `wanted` must be applied, going by values."""
        compared = {key: value for key, value in wanted.items() if key not in _WHICH_OBJECT}
        compared["metadata"] = {key: value for key, value in wanted["metadata"].items() if key not in _WHICH_OBJECT}
        return not _covers(self.values, compared, "") or _has_leftovers(self.fields, wanted)


def digest(body: Any) -> bytes:
    """The same for equal JSON, other for other JSON."""
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).digest()


def _owned(live: Mapping[str, Any]) -> JSON:
    """The fields that the operator has set, in the API server's notation."""
    for entry in live.get("metadata", {}).get("managedFields") or []:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply":
            fields: JSON = entry.get("fieldsV1", {})
            return fields
    return {}


def _part(live: Any, fields: Mapping[str, Any]) -> Any:
    """The values that `live` has of these fields."""
    inner = {mark: below for mark, below in fields.items() if mark != "."}
    if not inner or live is None:
        return live
    if isinstance(live, Mapping):
        named = {mark.removeprefix("f:"): below for mark, below in inner.items()}
        return {name: _part(live[name], below) for name, below in named.items() if name in live}
    items = (_item(live, json.loads(mark[2:])) if mark[0] == "k" else json.loads(mark[2:]) for mark in inner)
    return [
        _part(item, below)
        for item, (mark, below) in zip(items, inner.items(), strict=True)
        if item is not None and (mark[0] == "k" or item in live)
    ]


def _covers(live: Any, wanted: Any, name: str) -> bool:
    """Whether `live` has all that `wanted` has, under a field called `name`."""
    if live is None and not wanted:
        return True
    if isinstance(wanted, Mapping):
        if live is None:
            return all(_covers(None, value, key) for key, value in wanted.items())
        inner = "quantity" if name in _OF_QUANTITIES else ""
        return isinstance(live, Mapping) and all(
            _covers(live.get(key), value, inner or key) for key, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return _covers_list(live, wanted)
    if live == wanted:
        return True
    return (name == "quantity" or name in _QUANTITIES) and _canonical(live) == _canonical(wanted)


def _covers_list(live: Any, wanted: Sequence[Any]) -> bool:
    if not isinstance(live, Sequence) or isinstance(live, str) or len(live) != len(wanted):
        return False
    return all(_covers(own, item, "") for own, item in zip(live, wanted, strict=True)) or all(
        any(_covers(own, item, "") for own in live) for item in wanted
    )


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


def _item(items: Any, keys: Mapping[str, Any]) -> Any:
    """The item of a list with these keys; a key that is left out has its default."""
    if not isinstance(items, Sequence):
        return None
    for item in items:
        if isinstance(item, Mapping) and all(item.get(key, value) == value for key, value in keys.items()):
            return item
    return None
