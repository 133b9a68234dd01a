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
_NO_SUCH_KIND = 404
_DEFINITION_SECONDS = 2.0


@dataclass(slots=True)
class Workers:
    """From `start` to `stop`. Events are told with `seen`, by any thread."""

    cluster: Cluster
    store: Store
    queue: WorkQueue
    reconciler: Reconciler
    settings: Settings
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    last_look: float = field(default_factory=time.monotonic)
    """When everything was last looked at."""

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

    def look_at_everything(self) -> None:
        """List every kind and take that for the truth. Raises ClusterError."""
        for kind in (INFERENCE_SERVICE, *kinds(), POD):
            mark = self.store.mark()
            query = {} if kind == INFERENCE_SERVICE else {"labelSelector": OURS}
            self.store.replace(kind, self._listed(kind, query), mark)
        self.last_look = time.monotonic()

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
        self._until_done(self.look_at_everything)
        _log.info("%d services", len(self.store.services()))
        for number in range(self.settings.workers):
            self._spawn(f"worker-{number}", self._work)
        self._ask_for(self.store.services(), within_seconds=0.0)
        while not self._stopping.wait(self.settings.resync_seconds):
            self._until_done(self.look_at_everything)
            self._ask_for(self.store.services(), within_seconds=self.settings.resync_seconds / 2)

    def _until_done(self, look: Callable[[], None]) -> None:
        pause = 0.5
        while not self._stopping.is_set():
            try:
                look()
            except ClusterError as error:
                _log.warning("cannot look at everything: %s", error)
                self._stopping.wait(max(pause, error.retry_after))
                pause = min(pause * 2, _LONGEST_LIST_RETRY_SECONDS)
            else:
                return

    def _ask_for(self, keys: Iterable[Key], within_seconds: float) -> None:
        for key in keys:
            self.queue.add(key, after=random.uniform(0.0, within_seconds))  # noqa: S311 - to spread, not to hide

    def _work(self) -> None:
        while (key := self.queue.take()) is not None:
            try:
                after = self.reconciler.reconcile(key)
            except ClusterError as error:
                _log.warning("%s/%s: %s; will try again", *key, error)
                self.queue.done(key, failed=True)
            except Exception:  # noqa: BLE001 - the one place where a pass of unknown cause ends
                _log.exception("%s/%s: a fault in the operator; will try again", *key)
                self.queue.done(key, failed=True)
            else:
                self.queue.done(key, after=after)

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
