"""The threads that work the queue off, and one that now and then looks at everything, because watches lose things."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from charonia_operator.cluster import Cluster, ClusterError
from charonia_operator.naming import INFERENCE_SERVICE, JSON, OURS, POD, Key, ResourceKind, key_of
from charonia_operator.queue import WorkQueue
from charonia_operator.reconcile import Reconciler
from charonia_operator.resources import kinds
from charonia_operator.settings import Settings
from charonia_operator.store import Store

_log = logging.getLogger(__name__)
_LONGEST_LIST_RETRY_SECONDS = 10.0
_LONGEST_OUTAGE_RETRY_SECONDS = 30.0
"""Between passes while the API server does not answer: it is to be noticed soon that it is back."""
_NO_SUCH_KIND = 404
_FORBIDDEN = 403
_DEFINITION_SECONDS = 2.0
_SOON_SECONDS = 2.0
"""After a watch has begun anew; a broken connection breaks all watches at about the same time."""
_FORBIDDEN_SECONDS = 15.0
"""Between two tries to read what was forbidden."""


@dataclass(slots=True)
class Workers:
    """From `start` to `stop`. What watches see is told with `seen`, that they begin with `listed`; by any thread."""

    cluster: Cluster
    store: Store
    queue: WorkQueue
    reconciler: Reconciler
    settings: Settings
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _look_soon: threading.Event = field(default_factory=threading.Event)

    def wait_for_definition(self) -> None:
        """Return once the cluster knows InferenceServices: kopf looks for them only once."""
        told = False
        while not self._stopping.is_set():
            try:
                next(iter(self.cluster.list(INFERENCE_SERVICE, next(iter(self.settings.namespaces), ""))), None)
            except ClusterError as error:
                if not told:
                    _log.warning("waiting for the cluster to know and show %s: %s", INFERENCE_SERVICE.plural, error)
                told = True
                self._stopping.wait(_DEFINITION_SECONDS)
            else:
                return

    def start(self) -> None:
        """Begin with a look at everything; the workers wait for it."""
        self._spawn("resync", self._resync)

    def stop(self, within_seconds: float) -> None:
        """Let passes that have begun finish, for so long."""
        self._stopping.set()
        self._look_soon.set()
        self.queue.stop()
        self.reconciler.models.stop()
        deadline = time.monotonic() + within_seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def seen(self, kind: ResourceKind, body: JSON, *, deleted: bool) -> None:
        """A watch tells of an object."""
        if deleted:
            self.store.remove(kind, body)
        elif not self.store.put(kind, body):
            return  # known, for instance as the operator's own write
        key: Key | None = (body["metadata"]["namespace"], body["metadata"]["name"])
        if kind != INFERENCE_SERVICE:
            key = key_of(body)
        if key:
            self.queue.add(key)

    def listed(self) -> None:
        """
        A watch has begun, perhaps anew after a gap.

        It tells what there is, not what has gone meanwhile: only a look at everything finds that.
        """
        self._look_soon.set()

    @property
    def ailing(self) -> str:
        """The threads that have ended although nobody stopped them; empty where all is well."""
        if self._stopping.is_set():
            return ""
        return ", ".join(thread.name for thread in self._threads if not thread.is_alive())

    def look_at_everything(self) -> set[Key]:
        """
        List every kind and take that for the truth. Returns the services about which that is news.

        A kind of child that may not be listed stays as it was, and the services say so. Raises ClusterError.
        """
        news: set[Key] = set()
        forbidden: dict[ResourceKind, str] = {}
        for kind in (INFERENCE_SERVICE, *kinds(), POD):
            mark = self.store.mark()
            query = {} if kind == INFERENCE_SERVICE else {"labelSelector": OURS}
            try:
                news |= self.store.replace(kind, self._listed(kind, query), mark)
            except ClusterError as error:
                if error.status != _FORBIDDEN or kind == INFERENCE_SERVICE:
                    raise
                forbidden[kind] = str(error)
        if forbidden != self.store.forbidden:
            _log.warning("kinds that may not be listed: %s", forbidden or "none any more")
            self.store.forbidden = forbidden
            news.update(self.store.services())
        return news

    def _listed(self, kind: ResourceKind, query: dict[str, str]) -> Sequence[JSON]:
        found: list[JSON] = []
        for namespace in self.settings.namespaces or ("",):
            try:
                found.extend(self.cluster.list(kind, namespace, **query))
            except ClusterError as error:
                if error.status != _NO_SUCH_KIND or not kind.optional:
                    raise
        return found

    def _resync(self) -> None:
        self._look()
        _log.info("%d services", len(self.store.services()))
        for number in range(self.settings.workers):
            self._spawn(f"worker-{number}", self._work)
        self._ask_for(self.store.services(), within_seconds=0.0)
        due = time.monotonic() + self.settings.resync_seconds
        while not self._stopping.is_set():
            pause = _FORBIDDEN_SECONDS if self.store.forbidden else due - time.monotonic()
            if self._look_soon.wait(max(pause, 0.0)):
                self._stopping.wait(_SOON_SECONDS)
                self._look_soon.clear()
            self._ask_for(self._look(), within_seconds=0.0)
            if time.monotonic() >= due:
                due = time.monotonic() + self.settings.resync_seconds
                self._ask_for(self.store.services(), within_seconds=self.settings.resync_seconds / 2)

    def _look(self) -> set[Key]:
        """Look at everything, however long that takes."""
        pause = 0.5
        while not self._stopping.is_set():
            try:
                return self.look_at_everything()
            except ClusterError as error:
                _log.warning("cannot look at everything: %s", error)
                self._stopping.wait(max(pause, error.retry_after))
                pause = min(pause * 2, _LONGEST_LIST_RETRY_SECONDS)
        return set()

    def _ask_for(self, keys: Iterable[Key], within_seconds: float) -> None:
        for key in keys:
            self.queue.add(key, after=random.uniform(0.0, within_seconds))  # noqa: S311 - to spread, not to hide

    def _work(self) -> None:
        while (key := self.queue.take()) is not None:
            try:
                after = self.reconciler.reconcile(key)
            except ClusterError as error:
                _log.warning("%s/%s: %s; will try again", *key, error)
                self.queue.done(key, failed=True, longest=_LONGEST_OUTAGE_RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - the one place where a pass of unknown cause ends
                _log.exception("%s/%s: a fault in the operator; will try again", *key)
                self.queue.done(key, failed=True)
            else:
                self.queue.done(key, after=after)

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
