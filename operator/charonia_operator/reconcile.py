"""One level-triggered pass over a service: compares what is wanted with what is there and writes the difference."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from charonia_operator.cluster import ClusterError
from charonia_operator.diagnosis import failure_of, waits_for_volumes
from charonia_operator.drift import differs
from charonia_operator.models import ModelWatch, Target
from charonia_operator.naming import INFERENCE_SERVICE, JSON, Key, ResourceKind, is_owned_by, revision_name
from charonia_operator.observation import Observation, PodModels, Problem
from charonia_operator.pod.template import pod_template
from charonia_operator.resources import children, controller_revision, deployment, kinds
from charonia_operator.settings import Settings
from charonia_operator.spec.reading import SpecError
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.building import build_status, condition_of, invalid_status
from charonia_operator.store import Store

_log = logging.getLogger(__name__)
_ROUTES = {"HTTPRoute", "GRPCRoute", "Ingress"}
_SLOW_RETRY_SECONDS = 60.0
"""After a refusal that only a human can lift."""
_POLL_WHILE_LOADING_SECONDS = 5.0


class ClusterInterface(Protocol):
    """What a pass asks of the cluster."""

    def get(self, kind: ResourceKind, namespace: str, name: str) -> JSON | None: ...
    def apply(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON: ...
    def apply_status(self, service: Mapping[str, Any], status: JSON) -> JSON: ...
    def delete(self, kind: ResourceKind, body: Mapping[str, Any]) -> None: ...
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
    now: Callable[[], str] = utc_now

    def reconcile(self, key: Key) -> float | None:
        """Make one pass. Returns after how many seconds another is wanted. Raises ClusterError to be tried again."""
        body = self.store.service(key)
        if body is None or body["metadata"].get("deletionTimestamp"):
            self.models.forget(key)  # owner references do the rest
            return None
        try:
            service = InferenceServiceSpec.parse(body)
        except SpecError as error:
            self._write_status(body, invalid_status(body, str(error), self.now()))
            return None
        problems = self._write_children(service)
        seen = self._observe(service, problems)
        self._write_status(body, build_status(service, seen, body.get("status") or {}, self.now()))
        if problems:
            return _SLOW_RETRY_SECONDS
        loading = any(model.state != "Ready" for report in seen.models.values() for model in report.models)
        return _POLL_WHILE_LOADING_SECONDS if loading else self.settings.model_poll_seconds if seen.pods else None

    def _write_children(self, service: InferenceServiceSpec) -> list[Problem]:
        """Apply what is missing or differs, delete what is not wanted. What is refused becomes a problem."""
        observed = {_identity(kind, body): (kind, body) for kind, body in self._children(service)}
        wanted = children(service, self.settings, self._template(service, observed))
        by_name = {(kind.api_version, kind.kind): kind for kind in kinds()}
        problems = []
        for child in wanted:
            kind = by_name[child["apiVersion"], child["kind"]]
            known = observed.pop(_identity(kind, child), None)
            problem = self._write_child(service, kind, child, known[1] if known else None)
            if problem:
                problems.append(problem)
        for kind, body in () if problems else observed.values():
            if is_owned_by(body, service.uid) and not body["metadata"].get("deletionTimestamp"):
                _log.info("%s/%s: deleting %s %s", *_key(service), kind.kind, body["metadata"]["name"])
                self.cluster.delete(kind, body)
                self.store.remove(kind, body)
        return problems

    def _write_child(
        self, service: InferenceServiceSpec, kind: ResourceKind, child: JSON, live: JSON | None
    ) -> Problem | None:
        try:
            if live is None:
                # Not among ours; but the name may be somebody else's.
                live = self.cluster.get(kind, service.namespace, child["metadata"]["name"])
                if live is not None and _may_take(live, service):
                    self.store.put(kind, live)
            if live is not None and not _may_take(live, service):
                return _name_conflict(kind, live)
            if live is None or differs(child, live):
                _log.info("%s/%s: applying %s %s", *_key(service), kind.kind, child["metadata"]["name"])
                self.store.put(kind, self.cluster.apply(kind, child))
        except ClusterError as error:
            return _problem(error, kind)
        return None

    def _template(
        self, service: InferenceServiceSpec, observed: Mapping[tuple[str, str], tuple[ResourceKind, JSON]]
    ) -> JSON:
        """The template that was frozen when the spec last changed, else one made now."""
        frozen = observed.get((controller_revision.RESOURCE.kind, revision_name(service)))
        if frozen and is_owned_by(frozen[1], service.uid):
            return controller_revision.frozen_template(frozen[1])
        return pod_template(service, self.settings)

    def _children(self, service: InferenceServiceSpec) -> Sequence[tuple[ResourceKind, JSON]]:
        return self.store.children(_key(service))

    def _observe(self, service: InferenceServiceSpec, problems: Sequence[Problem]) -> Observation:
        """Look at the children and pods as they are now."""
        bodies = [body for _, body in self._children(service)]
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
        return self.cluster.events_of(pod) if waits_for_volumes(pod) else []

    def _models_of(self, service: InferenceServiceSpec, pods: Iterable[JSON]) -> Mapping[str, PodModels]:
        targets = [
            Target(pod["metadata"]["name"], pod["status"]["podIP"], service.spec.networking.ports.http)
            for pod in pods
            if pod.get("status", {}).get("podIP") and _serves(pod)
        ]
        return self.models.reports(_key(service), targets)

    def _write_status(self, body: JSON, status: JSON) -> None:
        """Write the status where it differs, and tell people of what matters to them."""
        previous = body.get("status") or {}
        if status == previous:
            return
        try:
            written = self.cluster.apply_status(body, status)
        except ClusterError as error:
            if error.status == 404:
                return  # deleted meanwhile
            raise
        self.store.put(INFERENCE_SERVICE, written)
        for warning, condition in _news(previous, status):
            text, reason = condition["message"] or condition["reason"], condition["reason"]
            self.cluster.record_event(body, warning=warning, reason=reason, message=text, now=self.now())


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


def _identity(kind: ResourceKind, body: Mapping[str, Any]) -> tuple[str, str]:
    return kind.kind, body["metadata"]["name"]


def _may_take(live: Mapping[str, Any], service: InferenceServiceSpec) -> bool:
    """Ours, or that of an InferenceService of the same name which a restored backup has brought back."""
    references = live["metadata"].get("ownerReferences") or []
    controllers = [each for each in references if each.get("controller")]
    return any(
        each["uid"] == service.uid or (each["kind"] == INFERENCE_SERVICE.kind and each["name"] == service.name)
        for each in controllers
    )


def _serves(pod: Mapping[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return any(each["name"] == "server" and "running" in each.get("state", {}) for each in statuses)


def _name_conflict(kind: ResourceKind, live: Mapping[str, Any]) -> Problem:
    name = live["metadata"]["name"]
    text = (
        f"{kind.kind} {name} exists and is not this service's. Delete or rename it, or give the service another name."
    )
    return Problem("NameConflict", text)


def _problem(error: ClusterError, kind: ResourceKind) -> Problem | None:
    """What a refusal means. Raises it again where trying again may help."""
    if error.status == 404 and kind.optional:
        text = f"The cluster does not know {kind.kind} ({kind.api_version}): install its definition."
        return Problem("CRDMissing", text)
    if error.status in {403, 404} and "being terminated" in str(error):
        return None  # the namespace goes, and all that is in it
    if error.passing:
        raise error
    reasons = {403: "ForbiddenByPolicy", 422: "SpecInvalid", 400: "SpecInvalid"}
    return Problem(reasons.get(error.status, error.reason), f"{kind.kind}: {error}")
