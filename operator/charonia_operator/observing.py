"""A look at a service: its children and pods as they are now, and what was found out about them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from charonia_operator.cluster import ClusterError
from charonia_operator.diagnosis import (
    Failure,
    failure_of,
    failure_of_copy,
    is_ready,
    stage_of,
    waits_too_long_to_start,
)
from charonia_operator.models import ModelWatch, Target
from charonia_operator.naming import JSON, REVISION_LABEL, is_owned_by, revision_name
from charonia_operator.observation import Observation, PodModels, Problem, RevisionPods
from charonia_operator.pod.sync import follows, status_port
from charonia_operator.reasons import Reason
from charonia_operator.resources import autoscaler, deployment
from charonia_operator.resources import service as front
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.store import Store

_log = logging.getLogger(__name__)
_TEMPLATE_LABEL = "pod-template-hash"
_ROUTES = {"HTTPRoute", "GRPCRoute", "Ingress"}


class EventReader(Protocol):
    """What a look asks of the cluster."""

    def events_of(self, pod: Mapping[str, Any]) -> Sequence[JSON]: ...


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks at services. Raises ClusterError where a look may succeed later."""

    cluster: EventReader
    store: Store
    models: ModelWatch
    now: Callable[[], str]

    def look(self, service: InferenceServiceSpec, problems: Sequence[Problem]) -> Observation:
        """Look at the children and pods as they are now."""
        key = service.namespace, service.name
        owned = [body for _, body in self.store.children(key) if is_owned_by(body, service.uid)]
        by_kind = {body["kind"]: body for body in owned}
        pods = [pod for pod in self.store.pods(key) if not pod["metadata"].get("deletionTimestamp")]
        current, old = by_revision(pods, revision_name(service))
        targets = [target for pod in (*current, *old) if (target := _target(service, pod))]
        models, now = self.models.reports(key, targets), self.now()
        return Observation(
            deployment=by_kind.get(deployment.RESOURCE.kind),
            service=by_kind.get(front.RESOURCE.kind),
            autoscaler=by_kind.get(autoscaler.RESOURCE.kind),
            routes=[each for each in owned if each["kind"] in _ROUTES],
            current=self._looked_at(service, current, models, now),
            old=self._looked_at(service, old, models, now),
            models=models,
            problems=problems,
        )

    def _looked_at(
        self, service: InferenceServiceSpec, pods: Sequence[JSON], models: Mapping[str, PodModels], now: str
    ) -> RevisionPods:
        failures = [self._failure_of(service, pod, models.get(pod["metadata"]["name"]), now) for pod in pods]
        return RevisionPods(pods, [each for each in failures if each])

    def _failure_of(self, service: InferenceServiceSpec, pod: JSON, told: PodModels | None, now: str) -> Failure | None:
        found = failure_of(pod, service, now, self._events_of(pod, now))
        again = told.progress if told else None
        if found or again is None or not again.cause:
            return found
        return failure_of_copy(pod, service, again.cause, again.message, again.seconds)

    def _events_of(self, pod: JSON, now: str) -> Sequence[JSON]:
        try:
            return self.cluster.events_of(pod) if waits_too_long_to_start(pod, now) else []
        except ClusterError as error:
            if error.passing:
                raise
            _log.warning("cannot read the events of pod %s: %s", pod["metadata"]["name"], error)
            return []


def by_revision(pods: Sequence[JSON], name: str) -> tuple[Sequence[JSON], Sequence[JSON]]:
    """
    Tell the pods of what a service asks for now from those of what it asked for before.

    Pods of the same revision may differ, too: `kubectl rollout restart` makes another template of it. Those of the
    youngest pod's template are the current ones.
    """
    labelled = [pod for pod in pods if pod["metadata"]["labels"].get(REVISION_LABEL) == name]
    youngest = max(labelled, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""), default=None)
    template = youngest["metadata"]["labels"].get(_TEMPLATE_LABEL) if youngest else None
    current = [pod for pod in labelled if pod["metadata"]["labels"].get(_TEMPLATE_LABEL) == template]
    return current, [pod for pod in pods if all(pod is not each for each in current)]


def _target(service: InferenceServiceSpec, pod: JSON) -> Target | None:
    """Where a pod is to be asked, None while it cannot answer."""
    name, address = pod["metadata"]["name"], pod.get("status", {}).get("podIP")
    guarded, ports = service.spec.access.type == "Token", service.spec.networking.ports
    if not address:
        return None
    if stage_of(pod) == Reason.SYNCING:
        port = status_port(service)
        return Target(name, address, 0, status_port=port, is_copying=True) if port else None
    if not _serves(pod):
        return None
    port = ports.metrics if guarded else ports.http
    following = status_port(service) if follows(service) else 0
    return Target(name, address, port, guarded, following, is_ready=is_ready(pod))


def _serves(pod: Mapping[str, Any]) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return any(each["name"] == "server" and "running" in each.get("state", {}) for each in statuses)
