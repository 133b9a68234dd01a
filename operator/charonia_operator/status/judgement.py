"""
The judgement of a service: what is wanted against what its current and its old pods do.

The current revision decides. Old pods keep a service `Ready` while it cannot start, but they hide nothing: `Stalled`
names the worst cause, with the field and what to do.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from charonia_operator.diagnosis import is_ready, stage_of
from charonia_operator.naming import JSON
from charonia_operator.observation import Observation, RevisionPods
from charonia_operator.pod.server import server_command
from charonia_operator.reasons import Reason
from charonia_operator.remedies import refused, sentences
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.status.condition import Condition
from charonia_operator.status.copy_progress import progress_text

_LONGEST_REASON = 700
_WORKLOAD, _FRONT = "Deployment", "Service"
"""The kinds without which nothing serves."""
_HELD_BY_OLD_PODS = {Reason.INSUFFICIENT_GPU, Reason.QUOTA_EXCEEDED}
"""Causes that old pods may be part of: they keep what they have until the new ones serve."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a service is not what it is wanted to be. `stuck`: somebody must do something."""

    reason: str
    message: str
    stuck: bool = True


@dataclass(frozen=True, slots=True)
class Judgement:
    """The worst cause, if there is one, and the conditions that tell of it."""

    cause: Cause | None
    ready: Condition
    stalled: Condition
    reconciling: Condition


def judge(service: InferenceServiceSpec, seen: Observation) -> Judgement:
    """Judge what is wanted against the current and the old pods."""
    cause = worst_cause(service, seen)
    stuck = cause if cause and cause.stuck else None
    ready = _ready(service, seen, cause)
    stalled = (
        Condition("Stalled", "True", stuck.reason, stuck.message)
        if stuck
        else Condition("Stalled", "False", Reason.PROGRESSING)
    )
    return Judgement(cause, ready, stalled, _reconciling(service, seen, ready, stalled))


def worst_cause(service: InferenceServiceSpec, seen: Observation) -> Cause | None:
    """What keeps the service from what is wanted: what needs somebody's help comes first, then what came first."""
    causes = [*_causes(service, seen)]
    return next((each for each in causes if each.stuck), next(iter(causes), None))


def _causes(service: InferenceServiceSpec, seen: Observation) -> Iterator[Cause]:
    for problem in sorted(seen.problems, key=lambda each: each.kind not in {_WORKLOAD, _FRONT}):
        yield Cause(problem.reason, problem.message)
    if seen.current.ready >= service.replicas:
        return  # all that is wanted serves, whatever ails a pod beside them
    for cause in _of_pods(service, seen):
        yield _with_old_pods(cause, seen.old)
    if not seen.current.pods:
        for failure in seen.old.failures:
            yield Cause(failure.reason, f"Pod {failure.pod}: {failure.message}", stuck=False)


def _of_pods(service: InferenceServiceSpec, seen: Observation) -> Iterator[Cause]:
    """Why the current revision has too few pods that serve."""
    admission = refusal(service, seen)
    if admission:
        yield admission
    for failure in seen.current.failures:
        yield Cause(failure.reason, f"Pod {failure.pod}: {failure.message}", failure.stuck)
    if "--strict-readiness=false" not in server_command(service):
        yield from _of_models(seen)
    progressing = deployment_condition(seen, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        yield _overdue(service, seen)


def _with_old_pods(cause: Cause, old: RevisionPods) -> Cause:
    if cause.reason not in _HELD_BY_OLD_PODS or not old.ready:
        return cause
    text = f"{cause.message} The pods of the earlier revision keep theirs until the new ones serve."
    return Cause(cause.reason, text, cause.stuck)


def refusal(service: InferenceServiceSpec, seen: Observation) -> Cause | None:
    """Why the API server admits no pod: a quota, a policy, or something that the pod names and is not there."""
    condition = deployment_condition(seen, "ReplicaFailure")
    if condition.get("status") != "True":
        return None
    reason, text = refused(service, str(condition.get("message", "")))
    return Cause(reason, f"No pod can be made: {text}")


def _of_models(seen: Observation) -> Iterator[Cause]:
    """Pods that are not ready because a model does not load."""
    for pod in seen.current.pods:
        told = seen.models.get(pod["metadata"]["name"])
        broken = [model for model in told.models if model.state == "Unavailable"] if told else []
        if is_ready(pod) or not broken or told is None:
            continue
        first = broken[0]
        count = f"{len(broken)} of {len(told.models)} models do not load"
        text = f"Pod {pod['metadata']['name']}: {count}: {first.name} version {first.version}: {first.reason.strip()}"
        yield Cause(Reason.SOME_FAILED, sentences(text[:_LONGEST_REASON], "Correct it below spec.modelRepository.uri."))


def _overdue(service: InferenceServiceSpec, seen: Observation) -> Cause:
    """The pods have neither failed nor become ready in time: what they are at is the cause."""
    limit = f"{service.spec.probes.startup_timeout_seconds} s (spec.probes.startupTimeoutSeconds)"
    late = next((pod for pod in seen.current.pods if not is_ready(pod)), None)
    if late is None:
        text = f"The Deployment has made no pod for {limit}: see kubectl describe deployment {service.name}."
        return Cause(Reason.DEADLINE_EXCEEDED, text)
    text = f"Pod {late['metadata']['name']} is not ready after {limit}: {_pursuit(late, seen)}"
    return Cause(Reason.DEADLINE_EXCEEDED, text)


def _pursuit(pod: JSON, seen: Observation) -> str:
    """What a pod does that has not failed, and what to look at."""
    told = seen.models.get(pod["metadata"]["name"])
    loading = [model.name for model in told.models if model.state == "Loading"] if told else []
    match stage_of(pod):
        case Reason.SCHEDULING:
            return "no scheduler has given it a node. Check spec.scheduling.schedulerName."
        case Reason.SYNCING:
            return "it still copies its models. Raise spec.probes.startupTimeoutSeconds, or copy less (include)."
        case Reason.INSTALLING:
            return "it still installs spec.python. Raise spec.probes.startupTimeoutSeconds, or install less."
        case Reason.LOADING_MODELS if loading:
            text = f"{len(loading)} models still load, {loading[0]} first"
            return f"{text}. Raise spec.probes.startupTimeoutSeconds, or load less (spec.server.loadModels)."
        case Reason.LOADING_MODELS:
            text = "its server runs and does not say that it is ready"
            return f"{text}. Check spec.server.command, spec.networking.ports and spec.probes; see kubectl logs."
        case _:
            return "its containers have not started. See kubectl describe pod."


def _ready(service: InferenceServiceSpec, seen: Observation, cause: Cause | None) -> Condition:
    if service.spec.suspend:
        return Condition("Ready", "False", Reason.SUSPENDED, "spec.suspend is set: there are no pods.")
    if service.replicas == 0:
        return Condition("Ready", "False", Reason.SCALED_TO_ZERO, "spec.replicas is 0: there are no pods.")
    if seen.service is None:
        return _without_service(seen)
    count = seen.current.ready + seen.old.ready
    if count:
        return _serving(service, seen, cause)
    if cause:
        return Condition("Ready", "False", cause.reason, cause.message)
    stages = Counter(stage_of(pod) for pod in seen.pods if not is_ready(pod))
    if stages:
        stage, number = stages.most_common(1)[0]
        text = f"{number} of {service.replicas} pods: {stage}.{progress_text(seen)}"
        return Condition("Ready", "False", stage, text)
    return Condition("Ready", "False", Reason.NO_READY_PODS, "There are no pods yet.")


def _without_service(seen: Observation) -> Condition:
    problem = next((each for each in seen.problems if each.kind == _FRONT), None)
    if problem:
        return Condition("Ready", "False", problem.reason, problem.message)
    return Condition("Ready", "False", Reason.CREATING, "There is no Service yet.")


def _serving(service: InferenceServiceSpec, seen: Observation, cause: Cause | None) -> Condition:
    count = seen.current.ready + seen.old.ready
    text = f"{min(count, service.replicas)} of {service.replicas} pods serve"
    if cause is None or not cause.stuck:
        return Condition("Ready", "True", Reason.SERVING, f"{text}.")
    if seen.old.ready and not seen.current.ready:
        told = f"{text}, as before the last change of the spec, which fails: {cause.reason}: {cause.message}"
        return Condition("Ready", "True", Reason.UPDATE_FAILED, told)
    return Condition("Ready", "True", Reason.DEGRADED, f"{text}; {cause.reason}: {cause.message}")


def _reconciling(service: InferenceServiceSpec, seen: Observation, ready: Condition, stalled: Condition) -> Condition:
    wanted = service.replicas
    if stalled.holds:
        return Condition("Reconciling", "False", stalled.reason, "Nothing goes on before somebody helps: see Stalled.")
    if seen.deployment is None:
        return Condition("Reconciling", "True", Reason.CREATING, "There is no Deployment yet.")
    if not _is_observed(seen.deployment):
        return Condition("Reconciling", "True", Reason.ROLLING_UPDATE, "The Deployment's change is not seen yet.")
    updated, total = count_of(seen, "updatedReplicas"), count_of(seen, "replicas")
    if updated < wanted or total > wanted:
        reason = Reason.ROLLING_UPDATE if updated < total else Reason.SCALING
        return Condition("Reconciling", "True", reason, f"{updated} of {wanted} pods are up to date; {total} exist.")
    if count_of(seen, "readyReplicas") < wanted:
        return Condition("Reconciling", "True", ready.reason if not ready.holds else Reason.STARTING, ready.message)
    return Condition("Reconciling", "False", Reason.UP_TO_DATE)


def count_of(seen: Observation, name: str) -> int:
    """A number of the Deployment's status."""
    return int((seen.deployment or {}).get("status", {}).get(name, 0))


def deployment_condition(seen: Observation, wanted: str) -> JSON:
    """A condition of the Deployment as it is now; empty where there is none, or it is about an earlier template."""
    if seen.deployment is None or not _is_observed(seen.deployment):
        return {}
    found: Sequence[JSON] = seen.deployment.get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == wanted), {})


def _is_observed(deployment: JSON) -> bool:
    generation = deployment["metadata"].get("generation", 0)
    return bool(deployment.get("status", {}).get("observedGeneration", 0) >= generation)
