"""One level-triggered pass over a service: compares what is wanted with what is there and writes the difference."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from charonia_operator.allowance import Allowance
from charonia_operator.cluster import ClusterError
from charonia_operator.diagnosis import is_ready, waits_a_little_to_start
from charonia_operator.models import ModelWatch
from charonia_operator.naming import INFERENCE_SERVICE, JSON, Key, revision_name
from charonia_operator.observation import Observation, Problem
from charonia_operator.observing import Observer
from charonia_operator.ownership import may_take
from charonia_operator.pod.template import pod_template
from charonia_operator.reasons import Reason
from charonia_operator.resources import children, controller_revision
from charonia_operator.settings import Settings
from charonia_operator.skew import Skew
from charonia_operator.spec.reading import SpecError
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.building import build_status, invalid_status
from charonia_operator.status.image import images
from charonia_operator.status.news import News, is_well, news
from charonia_operator.store import Store
from charonia_operator.writing import ChildWriter, Observed, WritableCluster

_log = logging.getLogger(__name__)
_SLOW_RETRY_SECONDS = 60.0
"""After a refusal that only a human can lift."""
_LOOK_AT_EVENTS_SECONDS = 5.0
"""Between looks at the events of a pod that does not start: nothing else tells of them. Later they are routine."""


class ClusterInterface(WritableCluster, Protocol):
    """What a pass asks of the cluster."""

    def has(self, service: Mapping[str, Any]) -> bool: ...
    def apply_status(self, service: Mapping[str, Any], status: JSON) -> JSON: ...
    def events_of(self, pod: Mapping[str, Any]) -> Sequence[JSON]: ...
    def record_event(
        self, service: Mapping[str, Any], *, warning: bool, reason: str, message: str, now: str
    ) -> None: ...


def utc_now() -> str:
    """The time as the API server writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Passes over services. Keeps nothing of its own between them; one pass over a key at a time."""

    cluster: ClusterInterface
    store: Store
    settings: Settings
    models: ModelWatch
    skew: Skew
    now: Callable[[], str] = utc_now
    telling: Allowance = field(default_factory=Allowance)

    def reconcile(self, key: Key) -> float | None:
        """Make one pass. Returns after how many seconds another is wanted. Raises ClusterError to be tried again."""
        body = self.store.service(key)
        if body is None or body["metadata"].get("deletionTimestamp"):
            self._forget(key)  # owner references do the rest
            return None
        try:
            service = InferenceServiceSpec.parse(body)
        except SpecError as error:
            serving = sum(is_ready(pod) for pod in self.store.pods(key))
            status = invalid_status(body, str(error), self.now(), serving)
            return min(self._write_status(body, status), default=None)
        observed = {(kind.kind, child["metadata"]["name"]): (kind, child) for kind, child in self.store.children(key)}
        template = self._template(service, observed)
        wanted = children(service, self.settings, template)
        if any((child["kind"], child["metadata"]["name"]) not in observed for child in wanted) and self._is_gone(body):
            self.store.remove(INFERENCE_SERVICE, body)
            self._forget(key)
            return None
        writer = ChildWriter(self.cluster, self.store, service)
        problems = [*self._unseen(service), *writer.write(wanted, observed)]
        if not problems:
            problems = writer.prune(observed)
        seen = Observer(self.cluster, self.store, self.models, self.now).look(service, problems)
        status = build_status(service, seen, body.get("status") or {}, self.now())
        status |= images(template, pod_template(service, self.settings))
        return min([*self._pauses(key, seen), *self._write_status(body, status)], default=None)

    def _pauses(self, key: Key, seen: Observation) -> Iterable[float]:
        """After how many seconds something may have happened that no watch tells."""
        if seen.problems:
            yield _SLOW_RETRY_SECONDS
        if any(waits_a_little_to_start(pod, self.now()) for pod in seen.pods):
            yield _LOOK_AT_EVENTS_SECONDS
        if seen.pods:
            yield self.models.pause(key)

    def _forget(self, key: Key) -> None:
        self.models.forget(key)
        self.telling.forget(key)

    def _is_gone(self, body: JSON) -> bool:
        """Whether children are missing because their service is gone and no watch told. Asked where that is seldom."""
        if not body.get("status"):
            return False  # it never had any
        try:
            return not self.cluster.has(body)
        except ClusterError as error:
            if error.passing:
                raise
            return False

    def _unseen(self, service: InferenceServiceSpec) -> list[Problem]:
        """Kinds of children that the operator may not list: it works without, but repairs nothing."""
        return [
            Problem(Reason.FORBIDDEN, f"{kind.kind}: {text}. Grant it in the operator's role.", kind.kind)
            for kind, text in self.store.unseen(service.namespace).items()
        ]

    def _template(self, service: InferenceServiceSpec, observed: Observed) -> JSON:
        """The template that was frozen when the spec last changed, else one made now."""
        frozen = observed.get((controller_revision.RESOURCE.kind, revision_name(service)))
        if frozen and may_take(frozen[1], service):
            return controller_revision.frozen_template(frozen[1])
        return pod_template(service, self.settings)

    def _write_status(self, body: JSON, status: JSON) -> Sequence[float]:
        """Write the status where it differs, and tell people. Where that is too often, returns when it may be done."""
        previous, status = body.get("status") or {}, self.skew.fitted(status)
        if status == previous:
            return ()
        told = news(previous, status)
        wait = self._wait(body, previous, status, told)
        if wait:
            return (wait,)
        try:
            written = self.cluster.apply_status(body, status)
        except ClusterError as error:
            if error.status == 404:
                return ()  # deleted meanwhile
            if not self.skew.explains(error):
                raise
            return self._write_status(body, status)
        self.store.put(INFERENCE_SERVICE, written)
        if told:
            self._tell(body, told)
        return ()

    def _wait(self, body: JSON, previous: Mapping[str, Any], status: JSON, told: News | None) -> float:
        """How long to wait before a service that fails again and again is written about once more."""
        key = body["metadata"]["namespace"], body["metadata"]["name"]
        if previous.get("observedGeneration") != status["observedGeneration"]:
            self.telling.forget(key)  # somebody has changed the spec, and waits for what comes of it
        if is_well(previous) and is_well(status):
            return 0.0
        return self.telling.wait(key, 2 if told else 1)

    def _tell(self, body: JSON, told: News) -> None:
        """Record an Event."""
        try:
            self.cluster.record_event(
                body, warning=told.warning, reason=told.reason, message=told.message, now=self.now()
            )
        except ClusterError as error:
            _log.warning("cannot record an event: %s", error)
