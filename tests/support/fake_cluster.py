"""A cluster in memory for tests of passes: server-side apply with its managed fields, and nothing else."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from charonia_operator.cluster import ClusterError
from charonia_operator.naming import FIELD_MANAGER, INFERENCE_SERVICE, JSON, OURS, POD, ResourceKind
from charonia_operator.resources import kinds
from charonia_operator.store import Store


class FakeCluster:
    """Records what is written; `refuse` maps (verb, kind) to the error that such a request meets."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], JSON] = {}
        self.writes: list[tuple[str, str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.messages: list[str] = []
        """Of the events."""
        self.pod_events: list[JSON] = []
        self.refuse: dict[tuple[str, str], ClusterError] = {}
        self._versions = itertools.count(1)

    def add(self, body: JSON) -> JSON:
        """Put an object there as somebody else does."""
        body = deepcopy(body)
        body["metadata"].setdefault("uid", f"uid-of-{body['metadata']['name']}")
        body["metadata"].setdefault("namespace", "default")
        return self._keep(body)

    def fill(self, store: Store) -> None:
        """Let a store see everything that carries the operator's label, as lists do."""
        for kind in (INFERENCE_SERVICE, *kinds(), POD):
            query = {} if kind == INFERENCE_SERVICE else {"labelSelector": OURS}
            store.replace(kind, self.list(kind, **query), store.mark())

    def named(self, kind: str, name: str = "simple") -> JSON:
        return self.objects[kind, "default", name]

    def list(self, kind: ResourceKind, namespace: str = "", **query: str) -> Iterator[JSON]:
        self._meet("list", kind)
        bodies = [body for body in self.objects.values() if body["kind"] == kind.kind]
        return iter(deepcopy([each for each in bodies if "labelSelector" not in query or _is_labelled(each)]))

    def get(self, kind: ResourceKind, namespace: str, name: str) -> JSON | None:
        self._meet("get", kind)
        return deepcopy(self.objects.get((kind.kind, namespace, name)))

    def has(self, service: Mapping[str, Any]) -> bool:
        self._meet("has", INFERENCE_SERVICE)
        metadata = service["metadata"]
        found = self.objects.get((INFERENCE_SERVICE.kind, metadata["namespace"], metadata["name"]))
        return found is not None and found["metadata"]["uid"] == metadata["uid"]

    def apply(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON:
        self._meet("apply", kind)
        self.writes.append(("apply", kind.kind, body["metadata"]["name"]))
        metadata = body["metadata"]
        live = self.objects.get((kind.kind, metadata["namespace"], metadata["name"]), {"metadata": {}})
        merged = _merged(live, body)
        merged["metadata"].setdefault("uid", f"uid-of-{metadata['name']}")
        fields = _fields({key: value for key, value in body.items() if key not in {"apiVersion", "kind"}})
        entry = {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
        merged["metadata"]["managedFields"] = [entry]
        return deepcopy(self._keep(merged))

    def create(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON:
        if (kind.kind, body["metadata"]["namespace"], body["metadata"]["name"]) in self.objects:
            raise ClusterError(409, "Conflict", "the object has been modified")
        return self.apply(kind, body)

    def apply_status(self, service: Mapping[str, Any], status: JSON) -> JSON:
        self._meet("status", INFERENCE_SERVICE)
        name = service["metadata"]["name"]
        self.writes.append(("status", INFERENCE_SERVICE.kind, name))
        live = self.objects[INFERENCE_SERVICE.kind, service["metadata"]["namespace"], name]
        return deepcopy(self._keep({**live, "status": deepcopy(status)}))

    def delete(self, kind: ResourceKind, body: Mapping[str, Any]) -> None:
        self._meet("delete", kind)
        self.writes.append(("delete", kind.kind, body["metadata"]["name"]))
        del self.objects[kind.kind, body["metadata"]["namespace"], body["metadata"]["name"]]

    def events_of(self, pod: Mapping[str, Any]) -> Sequence[JSON]:
        self._meet("events", POD)
        return self.pod_events

    def record_event(self, service: Mapping[str, Any], *, warning: bool, reason: str, message: str, now: str) -> None:
        self._meet("event", INFERENCE_SERVICE)
        self.events.append(("Warning" if warning else "Normal", reason))
        self.messages.append(message)

    def _keep(self, body: JSON) -> JSON:
        metadata = body["metadata"]
        body["metadata"] = {**metadata, "resourceVersion": str(next(self._versions))}
        self.objects[body["kind"], metadata["namespace"], metadata["name"]] = body
        return body

    def _meet(self, verb: str, kind: ResourceKind) -> None:
        error = self.refuse.get((verb, kind.kind))
        if error:
            raise error


def _merged(live: Any, wanted: Any) -> Any:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        return {**live, **{key: _merged(live.get(key), value) for key, value in wanted.items()}}
    return deepcopy(wanted)


def _fields(wanted: Any) -> JSON:
    if not isinstance(wanted, Mapping):
        return {}
    return {f"f:{key}": _fields(value) for key, value in wanted.items()}


def _is_labelled(body: Mapping[str, Any]) -> bool:
    labels = body["metadata"].get("labels") or {}
    return bool(labels.get("app.kubernetes.io/managed-by") == FIELD_MANAGER)
