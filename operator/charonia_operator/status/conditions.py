"""The conditions of an InferenceService. Each says why it does not hold, and what to do about it."""

from charonia_operator.diagnosis import explained, reason_of, synced
from charonia_operator.observation import Observation
from charonia_operator.reasons import Reason
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.condition import Condition
from charonia_operator.status.copy_progress import progress_text
from charonia_operator.status.judgement import Judgement, count_of, refusal
from charonia_operator.status.model_list import ModelSummary

_NO_PODS_TO_SCALE = "ScalingDisabled"


def conditions(
    service: InferenceServiceSpec, seen: Observation, judged: Judgement, models: ModelSummary
) -> list[Condition]:
    """Every condition, in the order in which people read them."""
    found = [
        judged.ready,
        judged.reconciling,
        judged.stalled,
        _repository_synced(service, seen),
        _models_ready(seen, models),
        _workload_available(service, seen, judged),
    ]
    networking = service.spec.networking
    if networking.gateway or networking.ingress:
        found.append(_route_ready(service, seen))
    if service.spec.autoscaling and not service.spec.suspend:
        found.append(_autoscaler_ready(service, seen))
    return found


def invalid(message: str, serving: int) -> list[Condition]:
    """The conditions of a service whose spec cannot be read; its children, of which `serving` pods, stay."""
    ready = Condition("Ready", "False", Reason.SPEC_INVALID, message)
    if serving:
        text = f"{serving} pods serve, as before the last change of the spec, which fails: {message}"
        ready = Condition("Ready", "True", Reason.UPDATE_FAILED, text)
    return [ready, Condition("Stalled", "True", Reason.SPEC_INVALID, message)]


def _repository_synced(service: InferenceServiceSpec, seen: Observation) -> Condition:
    repository = service.spec.model_repository
    if repository is None or not repository.is_synced:
        return Condition("RepositorySynced", "True", Reason.NOT_COPIED, "The models are read where they are.")
    failed = next((failure for failure in seen.failures if failure.of_the_repository), None)
    if failed:
        return Condition("RepositorySynced", "False", failed.reason, f"Pod {failed.pod}: {failed.message}")
    done = sum(synced(pod) is not None for pod in seen.pods)
    if not seen.pods:
        return Condition("RepositorySynced", "Unknown", Reason.NO_PODS, "There are no pods.")
    if done < len(seen.pods):
        text = f"{done} of {len(seen.pods)} pods have the models.{progress_text(seen)}"
        return Condition("RepositorySynced", "False", Reason.DOWNLOADING, text)
    behind = [(pod, each.copy) for pod, each in seen.models.items() if each.copy and each.copy.cause != Reason.SYNCED]
    if behind:
        pod, copy = behind[0]
        reason, words = explained(service, reason_of(copy.cause), copy.message)
        return Condition("RepositorySynced", "False", reason, f"Pod {pod} serves its last copy: {words}")
    return Condition("RepositorySynced", "True", Reason.SYNCED, f"{done} of {done} pods have the models.")


def _models_ready(seen: Observation, models: ModelSummary) -> Condition:
    reports = [report for report in seen.models.values() if report.progress is None]
    answers = [report for report in reports if not report.error]
    if not answers:
        if any(report.refused for report in reports) and (seen.current.ready or seen.old.ready):
            text = "The pods are ready; their list of models wants a token, which the operator has not."
            return Condition("ModelsReady", "True", Reason.NOT_LISTED, text)
        errors = [report.error for report in reports]
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


def _workload_available(service: InferenceServiceSpec, seen: Observation, judged: Judgement) -> Condition:
    available = count_of(seen, "availableReplicas")
    text = f"{available} of {service.replicas} pods are available."
    refused = refusal(service, seen)
    if refused:
        return Condition("WorkloadAvailable", "False", refused.reason, f"{text} {refused.message}")
    if available >= service.replicas:
        return Condition("WorkloadAvailable", "True", Reason.AVAILABLE, text)
    if judged.cause:
        return Condition("WorkloadAvailable", "False", judged.cause.reason, f"{text} {judged.cause.message}")
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


def _autoscaler_ready(service: InferenceServiceSpec, seen: Observation) -> Condition:
    """What the HorizontalPodAutoscaler says of itself."""
    told = (seen.autoscaler or {}).get("status", {}).get("conditions") or []
    for each in told:
        if each["type"] in {"AbleToScale", "ScalingActive"} and each["status"] == "False":
            words, reason = str(each.get("message", "")), str(each.get("reason", ""))
            if reason == _NO_PODS_TO_SCALE:
                continue
            if each["type"] == "ScalingActive":
                reason, words = explained(service, Reason.METRICS_MISSING, words)
            return Condition("AutoscalerReady", "False", reason, words)
    if not told:
        return Condition("AutoscalerReady", "Unknown", Reason.CREATING, "The autoscaler has not said anything yet.")
    return Condition("AutoscalerReady", "True", Reason.AVAILABLE, "The autoscaler has its metrics.")
