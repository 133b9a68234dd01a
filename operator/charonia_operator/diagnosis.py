"""What ails the pods of a service: their states, and what the kubelet tells of them, put into one word and one text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charonia_operator.naming import JSON
from charonia_operator.pod.packages import INSTALL
from charonia_operator.pod.server import SERVER
from charonia_operator.pod.sync import SYNC, WATCH
from charonia_operator.reasons import Reason, remedy_of

_LONGEST_MESSAGE = 2000
_PULL_FAILURES = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
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
_OTHER_EACH_TIME = re.compile(r"; request [^;)\s]+|(?<=\w) object at 0x[0-9a-f]+")
"""Parts of messages that would make the same failure news at each try; they are in the pod's log."""
_PASSING = {
    Reason.REPOSITORY_UNREACHABLE,
    Reason.REPOSITORY_CHANGING,
    Reason.SYNC_FAILED,
    Reason.VOLUME_NOT_MOUNTED,
}
"""Failures that may end without anybody's help."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod does not serve. `stuck`: somebody must do something."""

    pod: str
    node: str
    container: str
    reason: str
    message: str

    @property
    def stuck(self) -> bool:
        """Whether it needs a human."""
        return self.reason not in _PASSING

    @property
    def of_the_repository(self) -> bool:
        """Whether it is about copying the models."""
        return self.container in {SYNC, WATCH}


def failure_of(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]] = ()) -> Failure | None:
    """What keeps a pod from serving, or None. `events` are the cluster's about this pod."""
    status = pod.get("status", {})
    found = _unschedulable(status) or _of_containers(status) or _of_events(events) or _evicted(status)
    if found is None:
        return None
    container, reason, message = found
    text = advised(message, reason)
    node = pod.get("spec", {}).get("nodeName", "")
    return Failure(pod["metadata"]["name"], node, container, reason, text)


def reason_of(cause: str) -> Reason:
    """The reason for what `charonia sync` calls the cause of a failure."""
    return _OF_THE_REPOSITORY.get(cause, Reason.SYNC_FAILED)


def advised(message: str, reason: str) -> str:
    """A failure's message, without what differs at each try, and what to do."""
    told = _OTHER_EACH_TIME.sub("", message.strip())[-_LONGEST_MESSAGE:]
    return f"{told} {remedy_of(reason)}".strip()


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


def waits_for_volumes(pod: Mapping[str, Any]) -> bool:
    """Whether the kubelet has the pod but no container has begun: only the cluster's events say why."""
    containers = _containers(pod.get("status", {}))
    waiting = [each.get("state", {}).get("waiting", {}).get("reason", "") for each in containers]
    scheduled = bool(pod.get("spec", {}).get("nodeName"))
    return scheduled and bool(waiting) and all(each in {"ContainerCreating", "PodInitializing"} for each in waiting)


def _containers(status: Mapping[str, Any]) -> list[JSON]:
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _goes_on(container: Mapping[str, Any]) -> bool:
    return bool(container["name"] == WATCH)


def _unschedulable(status: Mapping[str, Any]) -> tuple[str, str, str] | None:
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            message = condition.get("message", "")
            gpu = "gpu" in message.lower() or "nvidia.com/mig-" in message
            return "", Reason.INSUFFICIENT_GPU if "Insufficient" in message and gpu else Reason.UNSCHEDULABLE, message
    return None


def _of_containers(status: Mapping[str, Any]) -> tuple[str, str, str] | None:
    for container in _containers(status):
        name, state = container["name"], container.get("state", {})
        waiting = state.get("waiting", {})
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        if reason in _PULL_FAILURES:
            return name, Reason.IMAGE_PULL_FAILED, f"{container.get('image', '')}: {message or reason}"
        if reason == "CreateContainerConfigError":
            return name, Reason.SECRET_MISSING if "secret" in message else Reason.CONFIGURATION_MISSING, message
        if reason in {"CreateContainerError", "RunContainerError"}:
            return name, Reason.CONTAINER_CANNOT_START, message
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


def _of_exit(name: str, ended: Mapping[str, Any]) -> tuple[str, str, str]:
    """A container has failed: by its name, its last words and its exit code."""
    words = ended.get("message", "") or f"exit code {ended.get('exitCode')}"
    if ended.get("reason") == "OOMKilled":
        return name, Reason.OUT_OF_MEMORY, f"{name} was killed: it used more memory than its limit."
    if name in {SYNC, WATCH}:
        report = _report(words)
        cause = str(report.get("reason", ""))
        return name, reason_of(cause), str(report.get("message", words))
    if name == INSTALL:
        return name, Reason.PACKAGES_FAILED, words
    return name, Reason.CRASH_LOOP, f"{name} ended: {words}"


def _of_events(events: Sequence[Mapping[str, Any]]) -> tuple[str, str, str] | None:
    """The volumes that a pod waits for are told in events alone."""
    for event in events:
        if event.get("reason") in {"FailedMount", "FailedAttachVolume"}:
            message = event.get("message", "")
            missing = "secret" in message and "not found" in message
            return "", Reason.SECRET_MISSING if missing else Reason.VOLUME_NOT_MOUNTED, message
    return None


def _evicted(status: Mapping[str, Any]) -> tuple[str, str, str] | None:
    if status.get("phase") == "Failed":
        return "", status.get("reason", "") or Reason.POD_FAILED, status.get("message", "") or "the pod failed"
    return None


def _report(text: str) -> JSON:
    """The JSON that `charonia sync` leaves as its last words, empty for anything else."""
    try:
        report = json.loads(text)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}
