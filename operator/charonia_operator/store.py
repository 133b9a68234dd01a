"""
What the operator has seen of the cluster: services, their children, their pods.

Fed by watches, by the operator's own writes, and now and then replaced by a list, because a watch may lose a deletion.
Objects are kept as compressed JSON, without their `managedFields`; an object that belongs to no service is not kept.
Safe to use from several threads.
"""

import itertools
import json
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from charonia_operator.drift import Imprint, digest
from charonia_operator.naming import INFERENCE_SERVICE, JSON, POD, Key, ResourceKind, key_of

_Name = tuple[ResourceKind, str, str]
_UNREAD = "managedFields"
_UNREAD_OF_PODS = {"nodeName"}
"""What is read of a pod's `spec`; the rest is the Deployment's template once more."""


@dataclass(slots=True)
class _Entry:
    uid: str
    version: int
    key: Key | None
    """The service that the object is about."""
    body: bytes
    imprint: bytes
    """Of children, as JSON."""
    mark: bytes
    """Of the imprint: another imprint has another one."""
    seen: int

    def unpacked(self) -> JSON:
        body: JSON = _unpacked(self.body)
        return body


@dataclass(frozen=True, slots=True)
class _Applied:
    """Marks of what was wanted of a child when it was last applied, and of the imprint that this left."""

    wanted: bytes
    imprint: bytes


@dataclass(slots=True)
class Store:
    """Objects by kind, namespace and name. What is read is a copy of the caller's own."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: dict[_Name, _Entry] = field(default_factory=dict)
    _of_key: dict[Key, set[_Name]] = field(default_factory=dict)
    _applied: dict[_Name, _Applied] = field(default_factory=dict)
    _removed: dict[_Name, tuple[str, int]] = field(default_factory=dict)
    _ticks: "itertools.count[int]" = field(default_factory=itertools.count)
    forbidden: Mapping[tuple[ResourceKind, str], str] = field(default_factory=dict)
    """
    Kinds of which nothing is seen because the operator may not list them, and the API server's words.

    By kind and namespace, which is empty where all are watched.
    """

    def put(self, kind: ResourceKind, body: JSON) -> bool:
        """Remember an object as it is now. False when that, or a later state of it, is known already."""
        name = _name(kind, body)
        if self._knows(name, body):
            return False
        entry = self._entry(kind, body)
        with self._lock:
            return self._put(name, entry)

    def remove(self, kind: ResourceKind, body: JSON) -> None:
        """Forget a deleted object, unless another one of its name has come since."""
        name = _name(kind, body)
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.uid == _uid(body):
                self._drop(name)
                self._applied.pop(name, None)
                self._removed[name] = (_uid(body), next(self._ticks))

    def mark(self) -> int:
        """A moment, to be taken before a list is asked for and given to `replace`."""
        return next(self._ticks)

    def replace(
        self, kind: ResourceKind, bodies: Iterable[JSON], since: int, namespaces: Sequence[str] = ()
    ) -> set[Key]:
        """
        Take a list for all that there is of a kind, but what was seen after `since`.

        `namespaces` are those that were listed, if not all. Returns the services about which the list is news. Bodies
        are taken one by one, so that no more than a page of a long list is in memory; what raises leaves the rest as
        it was.
        """
        news: set[Key | None] = set()
        listed: set[_Name] = set()
        for body in bodies:
            name = _name(kind, body)
            listed.add(name)
            if self._knows(name, body, since) or self._is_removed(name, body, since):
                continue
            entry = self._entry(kind, body, since)
            with self._lock:
                if self._put(name, entry):
                    news.add(entry.key)
        with self._lock:
            for name, entry in list(self._entries.items()):
                covered = name[0] == kind and (not namespaces or name[1] in namespaces)
                if covered and name not in listed and entry.seen < since:
                    self._drop(name)
                    self._applied.pop(name, None)
                    news.add(entry.key)
            self._removed = {name: gone for name, gone in self._removed.items() if name[0] != kind or gone[1] > since}
        return {key for key in news if key}

    def service(self, key: Key) -> JSON | None:
        """The InferenceService."""
        with self._lock:
            entry = self._entries.get((INFERENCE_SERVICE, *key))
        return entry.unpacked() if entry else None

    def services(self) -> list[Key]:
        """Every InferenceService."""
        with self._lock:
            return [name[1:] for name in self._entries if name[0] == INFERENCE_SERVICE]

    def holds(self, kind: ResourceKind) -> bool:
        """Whether there is any object of a kind."""
        with self._lock:
            return any(name[0] == kind for name in self._entries)

    def unseen(self, namespace: str) -> Mapping[ResourceKind, str]:
        """Of what is forbidden that which concerns a namespace."""
        return {kind: text for (kind, where), text in self.forbidden.items() if where in {"", namespace}}

    def children(self, key: Key) -> Sequence[tuple[ResourceKind, JSON]]:
        """Everything that carries the service's label, pods left out."""
        return [(name[0], entry.unpacked()) for name, entry in self._labelled(key) if name[0] != POD]

    def pods(self, key: Key) -> list[JSON]:
        """The service's pods, in order of their names; of their `spec` only `nodeName`."""
        found = sorted(self._labelled(key), key=lambda each: each[0][2])
        return [entry.unpacked() for name, entry in found if name[0] == POD]

    def applied(self, kind: ResourceKind, wanted: JSON, answer: JSON) -> None:
        """Remember a child as it is after `wanted` was applied."""
        entry = self._entry(kind, answer)
        with self._lock:
            self._put(_name(kind, answer), entry)
            self._applied[_name(kind, wanted)] = _Applied(digest(wanted), entry.mark)

    def drifted(self, kind: ResourceKind, wanted: JSON) -> bool:
        """Whether a child is other than `wanted` makes it, or is not there."""
        name, sought = _name(kind, wanted), digest(wanted)
        with self._lock:
            entry, applied = self._entries.get(name), self._applied.get(name)
        if entry is None:
            return True
        if applied is not None:
            return applied != _Applied(sought, entry.mark)
        if Imprint(**_unpacked(entry.imprint)).differs(wanted):
            return True
        with self._lock:
            self._applied[name] = _Applied(sought, entry.mark)
        return False

    def _entry(self, kind: ResourceKind, body: JSON, seen: int | None = None) -> _Entry:
        metadata = body["metadata"]
        key: Key | None = key_of(body)
        if kind == INFERENCE_SERVICE:
            key = (metadata["namespace"], metadata["name"])
        kept = {**body, "metadata": {name: value for name, value in metadata.items() if name != _UNREAD}}
        if kind == POD:
            spec = body.get("spec") or {}
            kept["spec"] = {name: spec[name] for name in _UNREAD_OF_PODS if name in spec}
        tick = next(self._ticks) if seen is None else seen
        imprint = None if kind in {POD, INFERENCE_SERVICE} else Imprint.of(body)
        values = {"fields": imprint.fields, "values": imprint.values} if imprint else None
        return _Entry(_uid(body), _version(body), key, _packed(kept), _packed(values), digest(values), tick)

    def _labelled(self, key: Key) -> list[tuple[_Name, _Entry]]:
        with self._lock:
            return [(name, self._entries[name]) for name in self._of_key.get(key, ())]

    def _knows(self, name: _Name, body: JSON, seen: int | None = None) -> bool:
        """Whether this state of an object, or a later one, is there; that it was seen again is noted."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.uid != _uid(body) or entry.version < _version(body):
                return False
            entry.seen = max(entry.seen, next(self._ticks) if seen is None else seen)
            return True

    def _is_removed(self, name: _Name, body: JSON, since: int) -> bool:
        with self._lock:
            uid, when = self._removed.get(name, ("", 0))
            return uid == _uid(body) and when >= since

    def _put(self, name: _Name, entry: _Entry) -> bool:
        known = self._entries.get(name)
        if known and known.uid == entry.uid and known.version >= entry.version:
            return False
        self._drop(name)
        if entry.key is None:
            return False
        self._entries[name] = entry
        if name[0] != INFERENCE_SERVICE:
            self._of_key.setdefault(entry.key, set()).add(name)
        return True

    def _drop(self, name: _Name) -> None:
        entry = self._entries.pop(name, None)
        if entry and entry.key in self._of_key:
            self._of_key[entry.key].discard(name)
            if not self._of_key[entry.key]:
                del self._of_key[entry.key]


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def _unpacked(text: bytes) -> Any:
    return json.loads(zlib.decompress(text))


def _name(kind: ResourceKind, body: JSON) -> _Name:
    metadata = body["metadata"]
    return kind, metadata.get("namespace", ""), metadata["name"]


def _uid(body: JSON) -> str:
    return str(body["metadata"].get("uid", ""))


def _version(body: JSON) -> int:
    version = body["metadata"].get("resourceVersion", "")
    return int(version) if version.isdigit() else 0
