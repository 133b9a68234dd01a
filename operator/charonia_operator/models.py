"""
What the pods tell of their models over the v2 protocol, asked in the background so that no pass waits for a pod.

A server that asks its clients for a token lists its models on the metrics port: the operator has no tokens.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from typing import Any

from charonia_operator.naming import Key
from charonia_operator.observation import CopyProgress, CopyState, ModelState, PodModels

_TIMEOUT_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 1.0
"""Pauses between questions to pods of which something is to come double from here."""
_LONGEST_COPYING_PAUSE_SECONDS = 10.0
_LONGEST_ANSWER_BYTES = 8 << 20
_INDEX = "/v2/repository/index"
_STATES = {"READY": "Ready", "LOADING": "Loading", "UNLOADING": "Unloading", "UNAVAILABLE": "Unavailable"}
_UNKNOWN_PHASE = "Copying"
_ASKED_PODS = 16
"""Of many equal pods so many are asked."""


@dataclass(frozen=True, slots=True)
class Target:
    """A pod to ask."""

    pod: str
    address: str
    port: int
    is_metrics_port: bool = False
    status_port: int = 0
    """Of the container that copies the models or follows the bucket, where there is one."""
    is_copying: bool = False
    """The server has not started: only the copy can be asked about."""
    is_ready: bool = False
    """As the kubelet sees it. A pod that becomes ready is another target, and so is asked at once."""


@dataclass(slots=True)
class _Asked:
    targets: tuple[Target, ...] = ()
    wanted: tuple[Target, ...] = ()
    at: float = float("-inf")
    pause: float = _FIRST_PAUSE_SECONDS
    reports: Mapping[str, PodModels] = field(default_factory=dict)
    busy: bool = False


class ModelWatch:
    """`reports` gives the last answers at once; `changed` is called, by another thread, when there are others."""

    def __init__(
        self,
        changed: Callable[[Key], None],
        *,
        every_seconds: float,
        ask: Callable[[Target], PodModels] | None = None,
        clock: Callable[[], float] = time.monotonic,
        threads: int = 16,
    ) -> None:
        self._changed = changed
        self._every_seconds = every_seconds
        self._ask = ask or ask_pod
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[Key, _Asked] = {}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="models")

    def reports(self, key: Key, targets: Sequence[Target]) -> Mapping[str, PodModels]:
        """What these pods told last, by name. Asks them when that is too long ago, or when they are others now."""
        wanted = tuple(targets[:_ASKED_PODS])
        with self._lock:
            asked = self._asked.setdefault(key, _Asked())
            asked.wanted = wanted
            due = asked.targets != wanted or self._clock() - asked.at >= asked.pause
            begin = due and bool(wanted) and not asked.busy
            if begin:
                if asked.targets != wanted:
                    asked.pause = min(_FIRST_PAUSE_SECONDS, self._every_seconds)
                asked.targets, asked.at, asked.busy = wanted, self._clock(), True
            names = {target.pod for target in wanted}
            reports = {pod: report for pod, report in asked.reports.items() if pod in names}
        if begin:
            self._pool.submit(self._ask_all, key, wanted)
        return reports

    def pause(self, key: Key) -> float:
        """After how many seconds the service's pods are to be asked again."""
        with self._lock:
            asked = self._asked.get(key)
            return asked.pause if asked and asked.wanted else self._every_seconds

    def forget(self, key: Key) -> None:
        """The service is gone."""
        with self._lock:
            self._asked.pop(key, None)

    def stop(self) -> None:
        """Ask nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask_all(self, key: Key, targets: Sequence[Target]) -> None:
        reports = {target.pod: self._ask(target) for target in targets}
        with self._lock:
            asked = self._asked.get(key)
            if asked is None:
                return
            asked.busy = False
            asked.pause = self._pause_after(asked.pause, reports.values())
            news = asked.reports != reports or asked.wanted != targets
            asked.reports = reports
        if news:
            self._changed(key)

    def _pause_after(self, last: float, reports: Iterable[PodModels]) -> float:
        told = list(reports)
        if all(_is_settled(report) for report in told):
            return self._every_seconds
        copying = any(report.progress for report in told)
        longest = _LONGEST_COPYING_PAUSE_SECONDS if copying else self._every_seconds
        return min(last * 2, longest, self._every_seconds)


def _is_settled(report: PodModels) -> bool:
    """Whether nothing else is to be expected of a pod soon."""
    if report.progress or (report.error and not report.refused):
        return False
    return all(model.state == "Ready" for model in report.models)


def ask_pod(target: Target) -> PodModels:
    """Ask a pod for its models and, where it copies or follows its bucket, for how that goes."""
    if target.is_copying:
        return PodModels(progress=ask_for_progress(target) or CopyProgress(_UNKNOWN_PHASE))
    report = ask_for_models(target)
    return replace(report, copy=ask_for_copy(target)) if target.status_port else report


def ask_for_copy(target: Target) -> CopyState | None:
    """Read the status of `charonia sync --watch`; None where it does not answer, or has not copied anything yet."""
    try:
        told = _status_page(target)
        cause, revision = str(told["reason"]), str(told["revision"])
        state = CopyState(cause, str(told["message"]), revision, told["objects"]["total"], told["bytes"]["total"])
    except _NO_STATUS:
        return None
    else:
        return state if cause and revision else None


def ask_for_progress(target: Target) -> CopyProgress | None:
    """Read the status of `charonia sync --once`; None where it does not answer, as in pods of older operators."""
    try:
        told = _status_page(target)
        total, done, again = int(told["bytes"]["total"]), int(told["bytes"]["done"]), told.get("retrying") or {}
        cause, message, seconds = str(again.get("reason", "")), str(again.get("message", "")), again.get("seconds", 0)
        return CopyProgress(str(told["phase"]), total, done, cause, message, float(seconds))
    except _NO_STATUS:
        return None


_NO_STATUS = (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError)


def _status_page(target: Target) -> Any:
    connection = HTTPConnection(target.address, target.status_port, timeout=_TIMEOUT_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        return json.loads(connection.getresponse().read(_LONGEST_ANSWER_BYTES))


def ask_for_models(target: Target) -> PodModels:
    """Read the repository index of a server."""
    connection = HTTPConnection(target.address, target.port, timeout=_TIMEOUT_SECONDS)
    try:
        if target.is_metrics_port:
            connection.request("GET", _INDEX)
        else:
            connection.request("POST", _INDEX, "{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status in {401, 403}:
            return PodModels(error=f"pod {target.pod} wants a token", refused=True)
        body = answer.read(_LONGEST_ANSWER_BYTES)
        if target.is_metrics_port and not body:  # a pod from before the operator asked for the list
            return PodModels(error=f"pod {target.pod} wants a token", refused=True)
        if answer.status != 200:
            return PodModels(error=f"pod {target.pod} answers {answer.status} when asked for its models")
        return PodModels(parse_index(json.loads(body)))
    except (OSError, HTTPException, ValueError) as error:
        return PodModels(error=f"pod {target.pod} does not tell its models: {error}")
    finally:
        connection.close()


def parse_index(index: Any) -> tuple[ModelState, ...]:
    """The versions that a server has or cannot have; what was never asked for is left out. Raises ValueError."""
    if not isinstance(index, list) or not all(isinstance(entry, dict) for entry in index):
        raise ValueError("the repository index is not a list of models")
    return tuple(
        ModelState(
            str(entry.get("name", ""))[:256],
            str(entry.get("version") or "0")[:64],
            _STATES[entry["state"]],
            str(entry.get("reason", "")),
        )
        for entry in index
        if entry.get("state") in _STATES and entry.get("reason") != "unloaded"
    )
