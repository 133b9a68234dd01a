"""The conditions of an InferenceService. Each says why it does not hold, and what to do about it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charonia_operator.diagnosis import Failure, advised, is_ready, reason_of, stage_of, synced
from charonia_operator.naming import JSON
from charonia_operator.observation import Observation
from charonia_operator.reasons import Reason
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.model_list import ModelSummary

_LONGEST_MESSAGE = 4000


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its times."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is True."""
        return self.status == "True"


def conditions(service: InferenceServiceSpec, seen: Observation, models: ModelSummary) -> list[Condition]:
    """Every condition, in the order in which people read them."""
    ready = _ready(service, seen)
    stalled = _stalled(service, seen, ready)
    found = [
        ready,
        _reconciling(service, seen, ready, stalled),
        stalled,
        _repository_synced(service, seen),
        _models_ready(seen, models),
        _workload_available(service, seen),
    ]
    networking = service.spec.networking
    if networking.gateway or networking.ingress:
        found.append(_route_ready(service, seen))
    return found


def invalid(message: str) -> list[Condition]:
    """The conditions of a service whose spec cannot be read; its children stay as they are."""
    return [
        Condition("Ready", "False", Reason.SPEC_INVALID, message),
        Condition("Stalled", "True", Reason.SPEC_INVALID, message),
    ]


def rendered(
    wanted: Sequence[Condition], previous: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[JSON]:
    """As the API server has conditions. The time of a transition stays as long as the status does."""
    before = {each["type"]: each for each in previous}
    return [
        {
            "type": each.type,
            "status": each.status,
            "observedGeneration": generation,
            "lastTransitionTime": before[each.type]["lastTransitionTime"]
            if each.type in before and before[each.type]["status"] == each.status
            else now,
            "reason": str(each.reason),
            "message": each.message[:_LONGEST_MESSAGE],
        }
        for each in wanted
    ]


def ready_replicas(seen: Observation) -> int:
    """Pods that serve, as the Deployment counts them."""
    return _count(seen, "readyReplicas")


def _ready(service: InferenceServiceSpec, seen: Observation) -> Condition:
    if service.spec.suspend:
        return Condition("Ready", "False", Reason.SUSPENDED, "spec.suspend is set: there are no pods.")
    if service.replicas == 0:
        return Condition("Ready", "False", Reason.SCALED_TO_ZERO, "spec.replicas is 0: there are no pods.")
    ready = ready_replicas(seen)
    if ready:
        return Condition("Ready", "True", Reason.SERVING, f"{ready} of {service.replicas} pods serve.")
    if seen.problems:
        return Condition("Ready", "False", seen.problems[0].reason, seen.problems[0].message)
    worst = _worst(seen)
    if worst:
        return Condition("Ready", "False", worst.reason, _told(worst))
    stages = Counter(stage_of(pod) for pod in seen.pods if not is_ready(pod))
    if stages:
        stage, count = stages.most_common(1)[0]
        return Condition("Ready", "False", stage, f"{count} of {service.replicas} pods: {stage}.")
    return Condition("Ready", "False", Reason.NO_READY_PODS, "There are no pods yet.")


def _stalled(service: InferenceServiceSpec, seen: Observation, ready: Condition) -> Condition:
    if seen.problems:
        return Condition("Stalled", "True", seen.problems[0].reason, seen.problems[0].message)
    stuck = [failure for failure in seen.failures if failure.stuck]
    if stuck and service.replicas and (not ready.holds or ready_replicas(seen) < service.replicas):
        return Condition("Stalled", "True", stuck[0].reason, _told(stuck[0]))
    progressing = _deployment_condition(seen, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded" and service.replicas:
        text = f"No progress for {service.spec.probes.startup_timeout_seconds} s (spec.probes.startupTimeoutSeconds)."
        return Condition("Stalled", "True", Reason.DEADLINE_EXCEEDED, text)
    return Condition("Stalled", "False", Reason.PROGRESSING)


def _reconciling(service: InferenceServiceSpec, seen: Observation, ready: Condition, stalled: Condition) -> Condition:
    wanted = service.replicas
    if stalled.holds:
        return Condition("Reconciling", "False", stalled.reason, "Nothing goes on before somebody helps: see Stalled.")
    if seen.deployment is None:
        return Condition("Reconciling", "True", Reason.CREATING, "There is no Deployment yet.")
    metadata, status = seen.deployment["metadata"], seen.deployment.get("status", {})
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return Condition("Reconciling", "True", Reason.ROLLING_UPDATE, "The Deployment's change is not seen yet.")
    updated, total = _count(seen, "updatedReplicas"), _count(seen, "replicas")
    if updated < wanted or total > wanted:
        reason = Reason.ROLLING_UPDATE if updated < total else Reason.SCALING
        return Condition("Reconciling", "True", reason, f"{updated} of {wanted} pods are up to date; {total} exist.")
    if ready_replicas(seen) < wanted:
        return Condition("Reconciling", "True", ready.reason if not ready.holds else Reason.STARTING, ready.message)
    return Condition("Reconciling", "False", Reason.UP_TO_DATE)


def _repository_synced(service: InferenceServiceSpec, seen: Observation) -> Condition:
    repository = service.spec.model_repository
    if repository is None or not repository.is_synced:
        return Condition("RepositorySynced", "True", Reason.NOT_COPIED, "The models are read where they are.")
    failed = next((failure for failure in seen.failures if failure.of_the_repository), None)
    if failed:
        return Condition("RepositorySynced", "False", failed.reason, _told(failed))
    done = sum(synced(pod) is not None for pod in seen.pods)
    if not seen.pods:
        return Condition("RepositorySynced", "Unknown", Reason.NO_PODS, "There are no pods.")
    if done < len(seen.pods):
        return Condition(
            "RepositorySynced", "False", Reason.DOWNLOADING, f"{done} of {len(seen.pods)} pods have the models."
        )
    behind = [(pod, each.copy) for pod, each in seen.models.items() if each.copy and each.copy.cause != Reason.SYNCED]
    if behind:
        pod, copy = behind[0]
        reason = reason_of(copy.cause)
        text = f"Pod {pod} serves its last copy: {advised(copy.message, reason)}"
        return Condition("RepositorySynced", "False", reason, text)
    return Condition("RepositorySynced", "True", Reason.SYNCED, f"{done} of {done} pods have the models.")


def _models_ready(seen: Observation, models: ModelSummary) -> Condition:
    answers = [report for report in seen.models.values() if not report.error]
    if not answers:
        if any(report.refused for report in seen.models.values()) and ready_replicas(seen):
            text = "The pods are ready; their list of models wants a token, which the operator has not."
            return Condition("ModelsReady", "True", Reason.NOT_LISTED, text)
        errors = [report.error for report in seen.models.values()]
        reason = Reason.PROBE_UNREACHABLE if errors else Reason.NO_READY_PODS
        return Condition("ModelsReady", "Unknown", reason, errors[0] if errors else "No pod has told its models yet.")
    if models.failed:
        first = models.failed[0]
        count = f"{len(models.failed)} of {models.total}"
        text = f"{count} do not load: {first.name} version {first.version}: {first.reason}"
        return Condition("ModelsReady", "False", Reason.SOME_FAILED, text)
    if models.ready < models.total:
        return Condition("ModelsReady", "False", Reason.LOADING, f"{models.ready} of {models.total} are ready.")
    if models.total == 0:
        return Condition(
            "ModelsReady", "False", Reason.NO_MODELS, "The repository holds no model that the server knows."
        )
    return Condition("ModelsReady", "True", Reason.ALL_READY, f"{models.ready} of {models.total} are ready.")


def _workload_available(service: InferenceServiceSpec, seen: Observation) -> Condition:
    refused = _deployment_condition(seen, "ReplicaFailure")
    if refused.get("status") == "True":
        return Condition("WorkloadAvailable", "False", Reason.FORBIDDEN, refused.get("message", ""))
    available = _count(seen, "availableReplicas")
    text = f"{available} of {service.replicas} pods are available."
    if available >= service.replicas:
        return Condition("WorkloadAvailable", "True", Reason.AVAILABLE, text)
    worst = _worst(seen)
    if worst:
        return Condition("WorkloadAvailable", "False", worst.reason, f"{text} {_told(worst)}")
    return Condition("WorkloadAvailable", "False", Reason.STARTING, text)


def _route_ready(service: InferenceServiceSpec, seen: Observation) -> Condition:
    missing = next((each for each in seen.problems if each.reason == Reason.CRD_MISSING), None)
    if missing:
        return Condition("RouteReady", "False", Reason.CRD_MISSING, missing.message)
    if not seen.routes:
        return Condition("RouteReady", "False", Reason.CREATING, "There is no route yet.")
    if service.spec.networking.ingress:
        return Condition(
            "RouteReady", "True", Reason.INGRESS_CREATED, "The Ingress exists; its controller answers for it."
        )
    for route in seen.routes:
        parents = route.get("status", {}).get("parents") or []
        if not parents:
            name = route["metadata"]["name"]
            text = f"No controller has taken {route['kind']} {name} yet: check spec.networking.gateway.parentRefs."
            return Condition("RouteReady", "False", Reason.NOT_ACCEPTED, text)
        for condition in (each for parent in parents for each in parent.get("conditions") or []):
            if condition["type"] in {"Accepted", "ResolvedRefs"} and condition["status"] != "True":
                text = condition.get("message", "")
                return Condition("RouteReady", "False", condition.get("reason", "") or Reason.NOT_ACCEPTED, text)
    return Condition("RouteReady", "True", Reason.ACCEPTED)


def _worst(seen: Observation) -> Failure | None:
    """A failure that somebody must see to, else one that may pass."""
    return next((each for each in seen.failures if each.stuck), next(iter(seen.failures), None))


def _told(failure: Failure) -> str:
    return f"Pod {failure.pod}: {failure.message}"


def _count(seen: Observation, name: str) -> int:
    return int((seen.deployment or {}).get("status", {}).get(name, 0))


def _deployment_condition(seen: Observation, wanted: str) -> JSON:
    found = (seen.deployment or {}).get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == wanted), {})
