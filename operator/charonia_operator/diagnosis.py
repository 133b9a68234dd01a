"""What ails the pods of a service: their states, and what the kubelet tells of them, put into one word and one text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from charonia_operator.naming import JSON
from charonia_operator.pod.packages import INSTALL
from charonia_operator.pod.server import SERVER
from charonia_operator.pod.sync import SYNC, WATCH
from charonia_operator.reasons import Reason
from charonia_operator.remedies import advice, sentences
from charonia_operator.spec.service import InferenceServiceSpec

_LONGEST_SUMMARY = 600
_LONGEST_WORDS = 2000
_PATIENCE_SECONDS = 20.0
"""For so long a failure that may end by itself is no reason to call for help."""
_USUAL_START_SECONDS = 4.0
_LONG_START_SECONDS = 60.0
_PULL_FAILURES = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_START_FAILURES = {"StartError", "ContainerCannotRun"}
_STAGES = {
    SYNC: Reason.SYNCING,
    WATCH: Reason.SYNCING,
    INSTALL: Reason.INSTALLING,
    SERVER: Reason.LOADING_MODELS,
}
_OF_THE_REPOSITORY = {
    "Invalid": Reason.REPOSITORY_INVALID,
    "Denied": Reason.REPOSITORY_DENIED,
    "SecretMissing": Reason.SECRET_MISSING,
    "NotFound": Reason.REPOSITORY_NOT_FOUND,
    "Empty": Reason.REPOSITORY_EMPTY,
    "Unreachable": Reason.REPOSITORY_UNREACHABLE,
    "Drift": Reason.REPOSITORY_CHANGING,
    "Churning": Reason.REPOSITORY_CHANGING,
    "IntegrityFailed": Reason.INTEGRITY_FAILED,
    "LayoutInvalid": Reason.LAYOUT_INVALID,
    "RevisionMismatch": Reason.REVISION_MISMATCH,
    "DiskTooSmall": Reason.DISK_TOO_SMALL,
    "DiskFailed": Reason.DISK_FAILED,
}
"""The causes that `charonia sync` gives as its last words; others are no more than failures."""
_OTHER_EACH_TIME = re.compile(
    r"; request [^;)\s]+|(?<=\w) object at 0x[0-9a-f]+|^[IWEF]\d{4} [\d:.]+ \d+ |\d{4}-\d\d-\d\d[T ][\d:.,]+Z? ?",
    re.MULTILINE,
)
"""Parts of messages that would make the same failure news at each try; they are in the pod's log."""
_ROUND_A_PULL = re.compile(r'^Back-off pulling image "[^"]*"(: \w+: )?|rpc error: code = \w+ desc = ')
"""What the kubelet puts round a registry's answer, but not at each try."""
_ROUND_A_START = re.compile(r"^.*unable to start container process: |: unknown$", re.DOTALL)
_SPEAKS_OF_AN_ERROR = re.compile(r"error|unrecognized|invalid|cannot|failed", re.IGNORECASE)
_PASSING = {
    Reason.REPOSITORY_UNREACHABLE,
    Reason.REPOSITORY_CHANGING,
    Reason.SYNC_FAILED,
    Reason.VOLUME_NOT_MOUNTED,
    Reason.SANDBOX_FAILED,
}
"""Failures that may end without anybody's help."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod does not serve."""

    pod: str
    node: str
    container: str
    reason: str
    message: str
    stuck: bool = True
    """Whether somebody must do something."""

    @property
    def of_the_repository(self) -> bool:
        """Whether it is about copying the models."""
        return self.container in {SYNC, WATCH}


@dataclass(frozen=True, slots=True)
class _Finding:
    """A failure as a pod or an event tells it, before the spec is asked what to do about it."""

    container: str
    reason: str
    words: str
    since: str = ""
    """When what failed was begun, empty where that is unknown."""


def failure_of(
    pod: Mapping[str, Any], service: InferenceServiceSpec, now: str, events: Sequence[Mapping[str, Any]] = ()
) -> Failure | None:
    """What keeps a pod from serving, or None. `events` are the cluster's about this pod."""
    status = pod.get("status", {})
    found = _unschedulable(status) or _of_containers(status) or _of_events(events) or _evicted(status)
    return _failure(pod, service, found, seconds_between(found.since, now)) if found else None


def failure_of_copy(
    pod: Mapping[str, Any], service: InferenceServiceSpec, cause: str, words: str, seconds: float
) -> Failure:
    """What `charonia sync` says of a store that has not answered for some seconds, and is asked again."""
    return _failure(pod, service, _Finding(SYNC, reason_of(cause), words), seconds)


def reason_of(cause: str) -> Reason:
    """The reason for what `charonia sync` calls the cause of a failure."""
    return _OF_THE_REPOSITORY.get(cause, Reason.SYNC_FAILED)


def explained(service: InferenceServiceSpec, reason: str, words: str) -> tuple[str, str]:
    """
    Return the reason and the text of a failure: a summary, what to do, and then the rest of the words.

    In this order, because what is too long is cut at its end.
    """
    told = _OTHER_EACH_TIME.sub("", words.strip())
    better, remedy = advice(service, reason, told)
    summary = _summary(told)
    text = sentences(summary, remedy)
    return better, text if summary == told else f"{text} Last words: {told[-_LONGEST_WORDS:]}"


def seconds_between(since: str, now: str) -> float:
    """From one time to another, both in RFC 3339; 0 where one of them is none."""
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _failure(pod: Mapping[str, Any], service: InferenceServiceSpec, found: _Finding, seconds: float) -> Failure:
    reason, text = explained(service, found.reason, found.words)
    stuck = reason not in _PASSING or seconds >= _PATIENCE_SECONDS
    node = pod.get("spec", {}).get("nodeName", "")
    return Failure(pod["metadata"]["name"], node, found.container, reason, text, stuck)


def _summary(words: str) -> str:
    """The line of a log that says most: the last one that speaks of an error, else the last one."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if not lines:
        return ""
    telling = [line for line in lines if _SPEAKS_OF_AN_ERROR.search(line)]
    return (telling or lines)[-1][:_LONGEST_SUMMARY]


def stage_of(pod: Mapping[str, Any]) -> str:
    """What a pod without a failure is doing: a reason for not being ready."""
    status = pod.get("status", {})
    if not pod.get("spec", {}).get("nodeName"):
        return Reason.SCHEDULING
    for container in _containers(status):
        if "running" in container.get("state", {}) and not (container.get("started") and _goes_on(container)):
            return _STAGES.get(container["name"], Reason.STARTING)
    return Reason.STARTING


def synced(pod: Mapping[str, Any]) -> JSON | None:
    """What the container that copied the models said at its end, where it has succeeded."""
    for container in pod.get("status", {}).get("initContainerStatuses") or []:
        ended = container.get("state", {}).get("terminated")
        if container["name"] == SYNC and ended and ended.get("exitCode") == 0:
            return _report(ended.get("message", ""))
    return None


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the kubelet counts the pod among those that serve."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def waits_to_start(pod: Mapping[str, Any]) -> bool:
    """Whether the kubelet has the pod but no container has begun: only the cluster's events say why."""
    containers = _containers(pod.get("status", {}))
    waiting = [each.get("state", {}).get("waiting", {}).get("reason", "") for each in containers]
    scheduled = bool(pod.get("spec", {}).get("nodeName"))
    return scheduled and bool(waiting) and all(each in {"ContainerCreating", "PodInitializing"} for each in waiting)


def waits_a_little_to_start(pod: Mapping[str, Any], now: str) -> bool:
    """Whether that has not lasted for so long that it may be looked at as seldom as anything."""
    return (
        waits_to_start(pod) and seconds_between(str(pod.get("status", {}).get("startTime")), now) < _LONG_START_SECONDS
    )


def waits_too_long_to_start(pod: Mapping[str, Any], now: str) -> bool:
    """Whether that has lasted for longer than volumes and networks usually take."""
    begun = pod.get("status", {}).get("startTime")
    return waits_to_start(pod) and (begun is None or seconds_between(str(begun), now) >= _USUAL_START_SECONDS)


def _containers(status: Mapping[str, Any]) -> list[JSON]:
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _goes_on(container: Mapping[str, Any]) -> bool:
    return bool(container["name"] == WATCH)


def _unschedulable(status: Mapping[str, Any]) -> _Finding | None:
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return _Finding("", Reason.UNSCHEDULABLE, condition.get("message", ""))
    return None


def _of_containers(status: Mapping[str, Any]) -> _Finding | None:
    for container in _containers(status):
        name, state = container["name"], container.get("state", {})
        waiting = state.get("waiting", {})
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        if reason in _PULL_FAILURES:
            words = _ROUND_A_PULL.sub("", message) or reason
            return _Finding(name, Reason.IMAGE_PULL_FAILED, f"{container.get('image', '')}: {words}")
        if reason == "CreateContainerConfigError":
            secret = "secret" in message.lower()
            return _Finding(name, Reason.SECRET_MISSING if secret else Reason.CONFIGURATION_MISSING, message)
        if reason in {"CreateContainerError", "RunContainerError"}:
            return _Finding(name, Reason.CONTAINER_CANNOT_START, _ROUND_A_START.sub("", message))
        is_first = container in (status.get("initContainerStatuses") or [])
        ended = state.get("terminated") or _failed_try(container, is_first=is_first)
        if ended.get("exitCode", 0) != 0:
            return _of_exit(name, ended)
    return None


def _failed_try(container: Mapping[str, Any], *, is_first: bool) -> Mapping[str, Any]:
    """
    How a container ended last that waits for its next start, or has started again but has got nowhere yet.

    Containers that come before the others are ready when they have ended well; the others have started when a probe
    says so.
    """
    state = container.get("state", {})
    on_its_way = "running" in state and not container.get("ready" if is_first else "started")
    if on_its_way or state.get("waiting", {}).get("reason") == "CrashLoopBackOff":
        ended: Mapping[str, Any] = container.get("lastState", {}).get("terminated") or {}
        return ended
    return {}


def _of_exit(name: str, ended: Mapping[str, Any]) -> _Finding:
    """A container has failed: by its name, its last words and its exit code."""
    words, since = ended.get("message", "") or f"exit code {ended.get('exitCode')}", str(ended.get("startedAt") or "")
    if ended.get("reason") == "OOMKilled":
        return _Finding(name, Reason.OUT_OF_MEMORY, f"{name} was killed: it used more memory than its limit.")
    if ended.get("reason") in _START_FAILURES:
        return _Finding(name, Reason.CONTAINER_CANNOT_START, _ROUND_A_START.sub("", words))
    if name in {SYNC, WATCH}:
        report = _report(words)
        cause = str(report.get("reason", ""))
        return _Finding(name, reason_of(cause), str(report.get("message", words)), since)
    if name == INSTALL:
        return _Finding(name, Reason.PACKAGES_FAILED, words)
    return _Finding(name, Reason.CRASH_LOOP, f"{name} ended: {words}")


def _of_events(events: Sequence[Mapping[str, Any]]) -> _Finding | None:
    """What a pod waits for before its first container is told in events alone: volumes, and its sandbox."""
    for event in events:
        message, since = event.get("message", ""), str(event.get("firstTimestamp") or "")
        if event.get("reason") in {"FailedMount", "FailedAttachVolume"} and not message.startswith("Unable to attach"):
            return _Finding("", Reason.VOLUME_NOT_MOUNTED, message, since)
        if event.get("reason") == "FailedCreatePodSandBox":
            return _Finding("", Reason.SANDBOX_FAILED, message, since)
    return None


def _evicted(status: Mapping[str, Any]) -> _Finding | None:
    if status.get("phase") == "Failed":
        words = status.get("message", "") or "the pod failed"
        return _Finding("", status.get("reason", "") or Reason.POD_FAILED, words)
    return None


def _report(text: str) -> JSON:
    """The JSON that `charonia sync` leaves as its last words, empty for anything else."""
    try:
        report = json.loads(text)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}
