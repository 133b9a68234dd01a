"""`build_status`: the whole status of a service."""

from collections.abc import Mapping, Sequence
from typing import Any

from charonia_operator.diagnosis import synced
from charonia_operator.naming import JSON, selector_text
from charonia_operator.observation import Observation
from charonia_operator.reasons import Reason
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.condition import Condition, condition_of, rendered
from charonia_operator.status.conditions import conditions, invalid
from charonia_operator.status.judgement import judge
from charonia_operator.status.model_list import summarize

_PROGRESS: Mapping[str, str] = {
    Reason.SYNCING: "Syncing",
    Reason.INSTALLING: "Loading",
    Reason.LOADING_MODELS: "Loading",
}


def build_status(service: InferenceServiceSpec, seen: Observation, previous: Mapping[str, Any], now: str) -> JSON:
    """`previous` is the status so far; `now`, the time in RFC 3339, is used only for what is other than it was."""
    models = summarize(seen.models.values())
    found = conditions(service, seen, judge(service, seen), models)
    told = models.rendered()
    if not seen.models and (seen.current.ready or seen.old.ready):
        # Pods serve, and were not asked for their models yet: what was known of them may well hold.
        found = [_as_before(each, previous) if each.type == "ModelsReady" else each for each in found]
        told = {name: previous[name] for name in ("modelsReady", "models", "modelsOmitted") if name in previous}
    deployed = (seen.deployment or {}).get("status", {})
    status: JSON = {
        "observedGeneration": service.generation,
        "conditions": rendered(found, previous.get("conditions") or [], service.generation, now),
        "phase": _phase(found),
        "replicas": deployed.get("replicas", 0),
        "readyReplicas": deployed.get("readyReplicas", 0),
        "updatedReplicas": deployed.get("updatedReplicas", 0),
        "availableReplicas": deployed.get("availableReplicas", 0),
        "selector": selector_text(service),
        "address": _address(service),
        "urls": _urls(service),
        **told,
    }
    optional = {
        "modelRevision": _revision(seen) or previous.get("modelRevision"),
        "lastFailure": _last_failure(seen, previous, now),
    }
    return status | {name: value for name, value in optional.items() if value}


def invalid_status(body: Mapping[str, Any], message: str, now: str, serving: int = 0) -> JSON:
    """The status of an object whose spec cannot be read, and of which `serving` pods are ready: as before, and that."""
    previous, generation = body.get("status") or {}, body["metadata"].get("generation", 0)
    known = [
        Condition(each["type"], each["status"], each["reason"], each["message"])
        for each in previous.get("conditions") or []
        if each["type"] not in {"Ready", "Stalled"}
    ]
    found = rendered([*invalid(message, serving), *known], previous.get("conditions") or [], generation, now)
    phase = "Degraded" if serving else "Failed"
    return {**previous, "observedGeneration": generation, "conditions": found, "phase": phase}


def _as_before(condition: Condition, previous: Mapping[str, Any]) -> Condition:
    before = condition_of(previous, condition.type)
    if not before:
        return condition
    return Condition(condition.type, before["status"], before["reason"], before["message"])


def _phase(found: Sequence[Condition]) -> str:
    known = {each.type: each for each in found}
    ready, stalled = known["Ready"], known["Stalled"]
    if ready.reason == Reason.SUSPENDED:
        return "Suspended"
    if ready.holds:
        if stalled.holds or known["ModelsReady"].status == "False":
            return "Degraded"
        return "Updating" if known["Reconciling"].holds else "Ready"
    return "Failed" if stalled.holds else _PROGRESS.get(ready.reason, "Pending")


def _address(service: InferenceServiceSpec) -> JSON:
    ports, host = service.spec.networking.ports, f"{service.name}.{service.namespace}.svc"
    return {
        "http": f"http://{host}:{ports.http}",
        "grpc": f"{host}:{ports.grpc}",
        "metrics": f"http://{host}:{ports.metrics}/metrics",
    }


def _urls(service: InferenceServiceSpec) -> list[JSON]:
    """From outside where hosts are known, else in the cluster."""
    networking = service.spec.networking
    secure = bool(networking.tls)
    scheme, port = ("https", 443) if secure else ("http", 80)
    urls = [{"type": "HTTP", "url": f"{scheme}://{host}{service.path_prefix}"} for host in networking.hostnames]
    urls += [{"type": "GRPC", "url": f"{host}:{port}"} for host in networking.grpc_hostnames]
    address = _address(service)
    return urls or [{"type": "HTTP", "url": address["http"]}, {"type": "GRPC", "url": address["grpc"]}]


def _revision(seen: Observation) -> JSON:
    """What the youngest pod has copied: what the container that follows the bucket says, else the one before it."""
    youngest = sorted(seen.pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True)
    for pod in youngest:
        told = seen.models.get(pod["metadata"]["name"])
        if told and told.copy:
            return {"current": told.copy.revision[:71], "objects": told.copy.objects, "bytes": told.copy.bytes}
        report = synced(pod) or {}
        digest = report.get("revision") or report.get("digest")
        if isinstance(digest, str) and digest:
            counts = {name: report[name] for name in ("objects", "bytes") if isinstance(report.get(name), int)}
            return {"current": digest[:71], **counts}
    return {}


def _last_failure(seen: Observation, previous: Mapping[str, Any], now: str) -> JSON | None:
    """The worst failure that there is now, timed by when it was first seen; else the last one there was."""
    before: JSON | None = previous.get("lastFailure")
    if not seen.failures:
        return before
    worst = next((failure for failure in seen.failures if failure.stuck), seen.failures[0])
    failure = {
        name: value
        for name, value in {
            "pod": worst.pod,
            "node": worst.node,
            "container": worst.container,
            "reason": worst.reason,
            "message": worst.message,
        }.items()
        if value
    }
    if before and failure == {name: value for name, value in before.items() if name != "time"}:
        return before
    return {"time": now, **failure}
