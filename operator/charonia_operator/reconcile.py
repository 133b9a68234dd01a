"""One level-triggered pass over a service: compares what is wanted with what is there and writes the difference."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from charonia_operator.allowance import Allowance
from charonia_operator.cluster import ClusterError
from charonia_operator.diagnosis import failure_of, waits_for_volumes
from charonia_operator.models import ModelWatch, Target
from charonia_operator.naming import INFERENCE_SERVICE, JSON, Key, is_owned_by, revision_name
from charonia_operator.observation import Observation, PodModels, Problem
from charonia_operator.pod.sync import status_port
from charonia_operator.pod.template import pod_template
from charonia_operator.reasons import Reason
from charonia_operator.resources import children, controller_revision, deployment
from charonia_operator.settings import Settings
from charonia_operator.skew import Skew
from charonia_operator.spec.reading import SpecError
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.building import build_status, condition_of, invalid_status
from charonia_operator.status.image import images
from charonia_operator.store import Store
from charonia_operator.writing import ChildWriter, Observed, WritableCluster

_log = logging.getLogger(__name__)
_ROUTES = {"HTTPRoute", "GRPCRoute", "Ingress"}
_SLOW_RETRY_SECONDS = 60.0
"""After a refusal that only a human can lift."""
_POLL_WHILE_LOADING_SECONDS = 5.0


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
            self._write_status(body, invalid_status(body, str(error), self.now()))
            return None
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
        seen = self._observe(service, problems)
        status = build_status(service, seen, body.get("status") or {}, self.now())
        self._write_status(body, status | images(template, pod_template(service, self.settings)))
        if problems:
            return _SLOW_RETRY_SECONDS
        loading = any(model.state != "Ready" for report in seen.models.values() for model in report.models)
        return _POLL_WHILE_LOADING_SECONDS if loading else self.settings.model_poll_seconds if seen.pods else None

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
            Problem(Reason.FORBIDDEN, f"{kind.kind}: {text}. Grant it in the operator's role.")
            for kind, text in self.store.unseen(service.namespace).items()
        ]

    def _template(self, service: InferenceServiceSpec, observed: Observed) -> JSON:
        """The template that was frozen when the spec last changed, else one made now."""
        frozen = observed.get((controller_revision.RESOURCE.kind, revision_name(service)))
        if frozen and is_owned_by(frozen[1], service.uid):
            return controller_revision.frozen_template(frozen[1])
        return pod_template(service, self.settings)

    def _observe(self, service: InferenceServiceSpec, problems: Sequence[Problem]) -> Observation:
        """Look at the children and pods as they are now."""
        bodies = [body for _, body in self.store.children(_key(service))]
        pods = [pod for pod in self.store.pods(_key(service)) if not pod["metadata"].get("deletionTimestamp")]
        # Pods of the current revision first: what ails those is what the user asks about.
        current = revision_name(service)
        pods.sort(key=lambda pod: pod["metadata"]["labels"].get("serving.charonia.dev/revision") != current)
        failures = [failure_of(pod, self._events_of(pod)) for pod in pods]
        return Observation(
            deployment=next((each for each in bodies if each["kind"] == deployment.RESOURCE.kind), None),
            routes=[each for each in bodies if each["kind"] in _ROUTES],
            pods=pods,
            failures=[each for each in failures if each],
            models=self._models_of(service, pods),
            problems=problems,
        )

    def _events_of(self, pod: JSON) -> Sequence[JSON]:
        try:
            return self.cluster.events_of(pod) if waits_for_volumes(pod) else []
        except ClusterError as error:
            if error.passing:
                raise
            _log.warning("cannot read the events of pod %s: %s", pod["metadata"]["name"], error)
            return []

    def _models_of(self, service: InferenceServiceSpec, pods: Iterable[JSON]) -> Mapping[str, PodModels]:
        guarded, ports = service.spec.access.type == "Token", service.spec.networking.ports
        port = ports.metrics if guarded else ports.http
        targets = [
            Target(pod["metadata"]["name"], pod["status"]["podIP"], port, guarded, status_port(service))
            for pod in pods
            if pod.get("status", {}).get("podIP") and _serves(pod)
        ]
        return self.models.reports(_key(service), targets)

    def _write_status(self, body: JSON, status: JSON) -> None:
        """Write the status where it differs, and tell people of what matters to them."""
        previous, status = body.get("status") or {}, self.skew.fitted(status)
        if status == previous:
            return
        try:
            written = self.cluster.apply_status(body, status)
        except ClusterError as error:
            if error.status == 404:
                return  # deleted meanwhile
            if not self.skew.explains(error):
                raise
            self._write_status(body, status)
            return
        self.store.put(INFERENCE_SERVICE, written)
        for warning, condition in _news(previous, status):
            self._tell(body, warning, condition)

    def _tell(self, body: JSON, warning: bool, condition: JSON) -> None:
        """Record an Event, unless there were many: what goes to and fro shall not fill the API server's store."""
        if not self.telling.allows((body["metadata"]["namespace"], body["metadata"]["name"])):
            return
        text, reason = condition["message"] or condition["reason"], condition["reason"]
        try:
            self.cluster.record_event(body, warning=warning, reason=reason, message=text, now=self.now())
        except ClusterError as error:
            _log.warning("cannot record an event: %s", error)


def _news(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[tuple[bool, JSON]]:
    """What is worth an Event: a service begins to serve, stops, or needs somebody. Each with whether it is bad."""
    served, serves = condition_of(before, "Ready"), condition_of(after, "Ready")
    begins_or_stops = (served.get("status") == "True") != (serves["status"] == "True")
    if begins_or_stops:
        yield serves["status"] != "True", serves
    stuck, sticks = condition_of(before, "Stalled"), condition_of(after, "Stalled")
    if sticks["status"] == "True" and (stuck.get("status"), stuck.get("reason")) != ("True", sticks["reason"]):
        yield True, sticks


def _key(service: InferenceServiceSpec) -> Key:
    return service.namespace, service.name


def _serves(pod: Mapping[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return any(each["name"] == "server" and "running" in each.get("state", {}) for each in statuses)
