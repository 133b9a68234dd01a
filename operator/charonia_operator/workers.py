"""The threads that work the queue off, and one that now and then looks at everything, because watches lose things."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from charonia_operator.cluster import ClusterError
from charonia_operator.leadership import Leadership
from charonia_operator.naming import INFERENCE_SERVICE, JSON, Key, ResourceKind, key_of
from charonia_operator.queue import Need, WorkQueue
from charonia_operator.reconcile import Reconciler
from charonia_operator.settings import Settings
from charonia_operator.store import Store
from charonia_operator.survey import Survey

_log = logging.getLogger(__name__)
_LONGEST_LIST_RETRY_SECONDS = 10.0
_LONGEST_OUTAGE_RETRY_SECONDS = 30.0
"""Between passes while the API server does not answer: it is to be noticed soon that it is back."""
_DEFINITION_SECONDS = 2.0
_SOON_SECONDS = 2.0
"""After a watch has begun anew; a broken connection breaks all watches at about the same time."""
_INCOMPLETE_SECONDS = 15.0
"""Between two tries to read what could not be read."""
_GATHERING_SECONDS = 1.0
"""What happens to the children and pods of a service comes in bursts: one pass for each burst."""
_FIRST_LISTS_SECONDS = 20.0
"""For the lists with which the watches begin. After them one look finds everything, and nothing is lost."""


@dataclass(slots=True)
class Workers:
    """From `start` to `stop`. What watches see is told with `seen`, that they begin with `listed`; by any thread."""

    survey: Survey
    store: Store
    queue: WorkQueue
    reconciler: Reconciler
    settings: Settings
    leadership: Leadership
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _look_soon: threading.Event = field(default_factory=threading.Event)

    def wait_for_definition(self) -> None:
        """Return once the cluster knows InferenceServices: kopf looks for them only once."""
        told = False
        while not self._stopping.is_set() and (problem := self.survey.can_begin()):
            if not told:
                _log.warning("waiting for the cluster to know and show %s: %s", INFERENCE_SERVICE.plural, problem)
            told = True
            self._stopping.wait(_DEFINITION_SECONDS)

    def start(self) -> None:
        """Begin with a look at everything; the workers wait for it, and for the leadership."""
        self._spawn("leadership", self._lead)
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
        self.leadership.give_back()

    def seen(self, kind: ResourceKind, body: JSON, *, deleted: bool) -> None:
        """A watch tells of an object."""
        if deleted:
            self.store.remove(kind, body)
        elif not self.store.put(kind, body):
            return  # known, for instance as the operator's own write
        key = key_of(body)
        if kind == INFERENCE_SERVICE:
            self.queue.add((body["metadata"]["namespace"], body["metadata"]["name"]), need=Need.CHANGE)
        elif key:
            self.queue.add(key, after=_GATHERING_SECONDS)

    def listed(self) -> None:
        """
        A watch has begun, perhaps anew after a gap.

        It tells what there is, not what has gone meanwhile: only a look at everything finds that.
        """
        self._look_soon.set()

    @property
    def unwatched(self) -> str:
        """Kinds that the cluster has got since the watches began; empty where there are none."""
        return ", ".join(sorted(kind.plural for kind in self.survey.appeared))

    @property
    def ailing(self) -> str:
        """The threads that have ended although nobody stopped them; empty where all is well."""
        if self._stopping.is_set():
            return ""
        return ", ".join(thread.name for thread in self._threads if not thread.is_alive())

    def _lead(self) -> None:
        self.leadership.campaign(self._stopping)

    def _resync(self) -> None:
        self._await_first_lists()
        self._look()
        _log.info("%d services", len(self.store.services()))
        for number in range(self.settings.workers):
            self._spawn(f"worker-{number}", self._work)
        self._ask_for(self.store.services(), within_seconds=0.0)
        due = time.monotonic() + self.settings.resync_seconds
        while not self._stopping.is_set():
            pause = _INCOMPLETE_SECONDS if self.survey.incomplete else due - time.monotonic()
            if self._look_soon.wait(max(pause, 0.0)):
                self._stopping.wait(_SOON_SECONDS)
                self._look_soon.clear()
            self._ask_for(self._look(), within_seconds=0.0)
            if time.monotonic() >= due:
                due = time.monotonic() + self.settings.resync_seconds
                self._ask_for(self.store.services(), within_seconds=self.settings.resync_seconds / 2)

    def _await_first_lists(self) -> None:
        """Return when the watches have told what there is, or have nothing to tell."""
        deadline = time.monotonic() + _FIRST_LISTS_SECONDS
        self._look_soon.wait(_SOON_SECONDS)
        while self._look_soon.is_set() and time.monotonic() < deadline and not self._stopping.is_set():
            self._look_soon.clear()
            self._stopping.wait(_GATHERING_SECONDS)

    def _look(self) -> set[Key]:
        """Look at everything, however long that takes."""
        pause = 0.5
        while not self._stopping.is_set():
            try:
                return self.survey.look()
            except ClusterError as error:
                _log.warning("cannot look at everything: %s", error)
                self._stopping.wait(max(pause, error.retry_after))
                pause = min(pause * 2, _LONGEST_LIST_RETRY_SECONDS)
        return set()

    def _ask_for(self, keys: Iterable[Key], within_seconds: float) -> None:
        for key in keys:
            after = random.uniform(0.0, within_seconds)  # noqa: S311 - to spread, not to hide
            self.queue.add(key, after, Need.ROUTINE)

    def _work(self) -> None:
        while (key := self.queue.take()) is not None and self.leadership.wait(self._stopping):
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
