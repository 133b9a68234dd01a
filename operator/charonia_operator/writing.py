"""What a pass writes of a service's children: what is missing or differs is applied, what is left over is deleted."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from charonia_operator.cluster import ClusterError
from charonia_operator.naming import JSON, ResourceKind, is_owned_by
from charonia_operator.observation import Problem
from charonia_operator.ownership import may_take, name_conflict
from charonia_operator.reasons import Reason
from charonia_operator.remedies import advice, sentences
from charonia_operator.resources import kinds
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.store import Store

_log = logging.getLogger(__name__)
_CONFLICT = 409

Observed: TypeAlias = dict[tuple[str, str], tuple[ResourceKind, JSON]]
"""The children that there are, by kind and name."""


class WritableCluster(Protocol):
    """What writing asks of the cluster."""

    def get(self, kind: ResourceKind, namespace: str, name: str) -> JSON | None: ...
    def apply(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON: ...
    def create(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON: ...
    def delete(self, kind: ResourceKind, body: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class ChildWriter:
    """Writes the children of one service. What is refused for good becomes a problem; the rest raises ClusterError."""

    cluster: WritableCluster
    store: Store
    service: InferenceServiceSpec

    def write(self, wanted: Sequence[JSON], observed: Observed) -> list[Problem]:
        """Apply what is missing or differs. Takes what is wanted off `observed`."""
        by_name = {(kind.api_version, kind.kind): kind for kind in kinds()}
        problems = []
        for child in wanted:
            kind = by_name[child["apiVersion"], child["kind"]]
            known = observed.pop((kind.kind, child["metadata"]["name"]), None)
            problem = self._write_child(kind, child, known[1] if known else None)
            if problem:
                problems.append(problem)
        return problems

    def prune(self, unwanted: Observed) -> list[Problem]:
        """Delete what is left of former specs."""
        problems = []
        for kind, body in unwanted.values():
            if not is_owned_by(body, self.service.uid) or body["metadata"].get("deletionTimestamp"):
                continue
            self._say("deleting", kind, body)
            try:
                self.cluster.delete(kind, body)
                self.store.remove(kind, body)
            except ClusterError as error:
                problem = _problem(error, kind, self.service)
                problems += [problem] if problem else []
        return problems

    def _write_child(self, kind: ResourceKind, child: JSON, live: JSON | None) -> Problem | None:
        try:
            if live is None:
                if self._create(kind, child):
                    return None
                live = self.cluster.get(kind, self.service.namespace, child["metadata"]["name"])
                if live is not None and may_take(live, self.service):
                    self.store.put(kind, live)
            if live is not None and not may_take(live, self.service):
                return Problem(Reason.NAME_CONFLICT, name_conflict(live, kind.kind, self.service), kind.kind)
            if self.store.drifted(kind, child):
                self._say("applying", kind, child)
                self.store.applied(kind, child, self.cluster.apply(kind, child))
        except ClusterError as error:
            return _problem(error, kind, self.service)
        return None

    def _create(self, kind: ResourceKind, child: JSON) -> bool:
        """Make what is not among ours. False where an object has the name: it may be somebody else's."""
        self._say("creating", kind, child)
        try:
            self.store.applied(kind, child, self.cluster.create(kind, child))
        except ClusterError as error:
            if error.status != _CONFLICT:
                raise
            return False
        return True

    def _say(self, doing: str, kind: ResourceKind, body: JSON) -> None:
        name = body["metadata"]["name"]
        _log.info("%s/%s: %s %s %s", self.service.namespace, self.service.name, doing, kind.kind, name)


def _problem(error: ClusterError, kind: ResourceKind, service: InferenceServiceSpec) -> Problem | None:
    """What a refusal means. Raises it again where trying again may help."""
    if error.status == 404 and kind.optional:
        text = f"The cluster does not know {kind.kind} ({kind.api_version}): install its definition."
        return Problem(Reason.CRD_MISSING, text, kind.kind)
    if error.status in {403, 404} and "being terminated" in str(error):
        return None  # the namespace goes, and all that is in it
    if error.passing:
        raise error
    reasons = {403: Reason.FORBIDDEN, 422: Reason.SPEC_INVALID, 400: Reason.SPEC_INVALID}
    reason, remedy = advice(service, reasons.get(error.status, error.reason), str(error))
    return Problem(reason, sentences(f"{kind.kind}: {error}", remedy), kind.kind)
