"""A look at everything: lists of every kind in every namespace, taken for the truth, because watches lose things."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from charonia_operator.cluster import Cluster, ClusterError
from charonia_operator.naming import INFERENCE_SERVICE, JSON, OURS, POD, Key, ResourceKind
from charonia_operator.resources import kinds
from charonia_operator.settings import Settings
from charonia_operator.store import Store

_log = logging.getLogger(__name__)
_NO_SUCH_KIND = 404
_FORBIDDEN = 403


@dataclass(slots=True)
class Survey:
    """
    Looks for one operator.

    A namespace of `--namespace` that may not be read, for instance because it is deleted, is left out; the others go
    on. A kind of child that may not be listed stays as it was, and the services of the namespace say so.
    """

    cluster: Cluster
    store: Store
    settings: Settings
    left_out: set[str] = field(default_factory=set)
    """Namespaces that were not read."""
    known_kinds: set[ResourceKind] = field(default_factory=set)
    """The optional kinds that the cluster knew when it was asked last."""
    _known_at_first: set[ResourceKind] | None = None

    def can_begin(self) -> str:
        """Why no InferenceService can be read anywhere, empty as soon as there is one namespace where they can."""
        told = ""
        for namespace in self._namespaces:
            try:
                next(iter(self.cluster.list(INFERENCE_SERVICE, namespace)), None)
            except ClusterError as error:
                told = str(error)
            else:
                return ""
        return told

    def look(self) -> set[Key]:
        """List everything. Returns the services about which that is news. Raises ClusterError."""
        news: set[Key] = set()
        forbidden: dict[tuple[ResourceKind, str], str] = {}
        left_out: set[str] = set()
        self.known_kinds = set()
        for namespace in self._namespaces:
            try:
                news |= self._replace(INFERENCE_SERVICE, namespace)
            except ClusterError as error:
                if error.status != _FORBIDDEN or not namespace:
                    raise
                news |= self._leave_out(namespace, error)
                left_out.add(namespace)
            else:
                news |= self._look_at_children(namespace, forbidden)
        if left_out != self.left_out:
            _log.warning("namespaces that are watched now: %s", ", ".join(set(self._namespaces) - left_out) or "none")
        self.left_out = left_out
        if self._known_at_first is None:
            self._known_at_first = set(self.known_kinds)
        if forbidden != self.store.forbidden:
            told = {f"{kind.plural} in {namespace or 'all namespaces'}" for kind, namespace in forbidden}
            _log.warning("what may not be listed: %s", ", ".join(sorted(told)) or "nothing any more")
            self.store.forbidden = forbidden
            news.update(self.store.services())
        return news

    @property
    def incomplete(self) -> bool:
        """Whether something could not be read."""
        return bool(self.left_out or self.store.forbidden)

    @property
    def appeared(self) -> set[ResourceKind]:
        """The optional kinds that the cluster knows by now, and did not at first: no watch has been begun for them."""
        if self._known_at_first is None:
            return set()
        optional = {kind for kind in kinds() if kind.optional}
        known = self.known_kinds | {kind for kind in optional if self.store.holds(kind)}
        return known - self._known_at_first

    @property
    def _namespaces(self) -> tuple[str, ...]:
        return self.settings.namespaces or ("",)

    def _look_at_children(self, namespace: str, forbidden: dict[tuple[ResourceKind, str], str]) -> set[Key]:
        news: set[Key] = set()
        for kind in (*kinds(), POD):
            try:
                news |= self._replace(kind, namespace)
            except ClusterError as error:
                if error.status != _FORBIDDEN:
                    raise
                forbidden[kind, namespace] = str(error)
        return news

    def _replace(self, kind: ResourceKind, namespace: str) -> set[Key]:
        mark = self.store.mark()
        return self.store.replace(kind, self._listed(kind, namespace), mark, [namespace] if namespace else [])

    def _listed(self, kind: ResourceKind, namespace: str) -> Iterator[JSON]:
        query = {} if kind == INFERENCE_SERVICE else {"labelSelector": OURS}
        try:
            yield from self.cluster.list(kind, namespace, **query)
        except ClusterError as error:
            if error.status != _NO_SUCH_KIND or not kind.optional:
                raise
        else:
            if kind.optional:
                self.known_kinds.add(kind)

    def _leave_out(self, namespace: str, error: ClusterError) -> set[Key]:
        """Forget what was seen in a namespace: nothing can be done there."""
        if namespace not in self.left_out:
            _log.warning("namespace %s is left out until it can be read: %s", namespace, error)
        news: set[Key] = set()
        for kind in (INFERENCE_SERVICE, *kinds(), POD):
            news |= self.store.replace(kind, [], self.store.mark(), [namespace])
        return news
