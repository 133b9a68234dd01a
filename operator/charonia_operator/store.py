"""
What the operator has seen of the cluster: services, their children, their pods.

Fed by watches, by the operator's own writes, and now and then replaced by a list, because a watch may lose a deletion.
Safe to use from several threads.
"""

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from charonia_operator.naming import INFERENCE_SERVICE, JSON, POD, Key, ResourceKind, key_of

_Name = tuple[ResourceKind, str, str]


@dataclass(slots=True)
class _Entry:
    body: JSON
    seen: int


@dataclass(slots=True)
class Store:
    """Bodies by kind, namespace and name. They are shared: nobody changes them."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: dict[_Name, _Entry] = field(default_factory=dict)
    _of_key: dict[Key, set[_Name]] = field(default_factory=dict)
    _removed: dict[_Name, tuple[str, int]] = field(default_factory=dict)
    _ticks: "itertools.count[int]" = field(default_factory=itertools.count)
    forbidden: Mapping[ResourceKind, str] = field(default_factory=dict)
    """Kinds of which nothing is seen because the operator may not list them, and the API server's words."""

    def put(self, kind: ResourceKind, body: JSON) -> bool:
        """Remember an object as it is now. False when that, or a later state of it, is known already."""
        with self._lock:
            return self._put(_name(kind, body), body, next(self._ticks))

    def remove(self, kind: ResourceKind, body: JSON) -> None:
        """Forget a deleted object, unless another one of its name has come since."""
        name = _name(kind, body)
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or _uid(entry.body) == _uid(body):
                self._drop(name)
                self._removed[name] = (_uid(body), next(self._ticks))

    def mark(self) -> int:
        """A moment, to be taken before a list is asked for and given to `replace`."""
        return next(self._ticks)

    def replace(self, kind: ResourceKind, bodies: Iterable[JSON], since: int) -> set[Key]:
        """
        Take a list for all that there is of a kind, but what was seen after `since`.

        Returns the services about which that is news.
        """
        news: set[Key | None] = set()
        with self._lock:
            listed = {_name(kind, body): body for body in bodies}
            known = {name: entry for name, entry in self._entries.items() if name[0] == kind}
            for name, entry in known.items():
                if name not in listed and entry.seen < since:
                    self._drop(name)
                    news.add(_service(name, entry.body))
            for name, body in listed.items():
                uid, when = self._removed.get(name, ("", 0))
                if (uid != _uid(body) or when < since) and self._put(name, body, since):
                    news.add(_service(name, body))
            self._removed = {name: gone for name, gone in self._removed.items() if name[0] != kind or gone[1] > since}
        return {key for key in news if key}

    def service(self, key: Key) -> JSON | None:
        """The InferenceService."""
        with self._lock:
            entry = self._entries.get((INFERENCE_SERVICE, *key))
            return entry.body if entry else None

    def services(self) -> list[Key]:
        """Every InferenceService."""
        with self._lock:
            return [name[1:] for name in self._entries if name[0] == INFERENCE_SERVICE]

    def children(self, key: Key) -> Sequence[tuple[ResourceKind, JSON]]:
        """Everything that carries the service's label, pods left out."""
        return [(name[0], body) for name, body in self._labelled(key) if name[0] != POD]

    def pods(self, key: Key) -> list[JSON]:
        """The service's pods, in order of their names."""
        return [body for name, body in sorted(self._labelled(key), key=lambda each: each[0][2]) if name[0] == POD]

    def _labelled(self, key: Key) -> list[tuple[_Name, JSON]]:
        with self._lock:
            return [(name, self._entries[name].body) for name in self._of_key.get(key, ())]

    def _put(self, name: _Name, body: JSON, seen: int) -> bool:
        entry = self._entries.get(name)
        if entry and _uid(entry.body) == _uid(body) and _version(entry.body) >= _version(body):
            entry.seen = max(entry.seen, seen)
            return False
        self._drop(name)
        self._entries[name] = _Entry(body, seen)
        key = key_of(body)
        if key and name[0] != INFERENCE_SERVICE:
            self._of_key.setdefault(key, set()).add(name)
        return True

    def _drop(self, name: _Name) -> None:
        entry = self._entries.pop(name, None)
        key = key_of(entry.body) if entry else None
        if key and key in self._of_key:
            self._of_key[key].discard(name)
            if not self._of_key[key]:
                del self._of_key[key]


def _name(kind: ResourceKind, body: JSON) -> _Name:
    metadata = body["metadata"]
    return kind, metadata.get("namespace", ""), metadata["name"]


def _service(name: _Name, body: JSON) -> Key | None:
    """Whom an object is about."""
    return name[1:] if name[0] == INFERENCE_SERVICE else key_of(body)


def _uid(body: JSON) -> str:
    return str(body["metadata"].get("uid", ""))


def _version(body: JSON) -> int:
    version = body["metadata"].get("resourceVersion", "")
    return int(version) if version.isdigit() else 0
