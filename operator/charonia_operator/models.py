"""
What the pods tell of their models over the v2 protocol, asked in the background so that no pass waits for a pod.

A server that asks its clients for a token lists its models on the metrics port: the operator has no tokens.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from typing import Any

from charonia_operator.naming import Key
from charonia_operator.observation import CopyState, ModelState, PodModels

_TIMEOUT_SECONDS = 3.0
_LONGEST_ANSWER_BYTES = 8 << 20
_INDEX = "/v2/repository/index"
_STATES = {"READY": "Ready", "LOADING": "Loading", "UNLOADING": "Unloading", "UNAVAILABLE": "Unavailable"}
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
    """Of the container that follows the bucket, where there is one."""


@dataclass(slots=True)
class _Asked:
    targets: tuple[Target, ...] = ()
    at: float = float("-inf")
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
            due = asked.targets != wanted or self._clock() - asked.at >= self._every_seconds
            begin = due and not asked.busy
            if begin:
                asked.targets, asked.at, asked.busy = wanted, self._clock(), True
            names = {target.pod for target in wanted}
            reports = {pod: report for pod, report in asked.reports.items() if pod in names}
        if begin:
            self._pool.submit(self._ask_all, key, wanted)
        return reports

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
            differ, asked.reports = asked.reports != reports, reports
        if differ:
            self._changed(key)


def ask_pod(target: Target) -> PodModels:
    """Ask a pod for its models and, where it follows its bucket, for how that goes."""
    report = ask_for_models(target)
    return replace(report, copy=ask_for_copy(target)) if target.status_port else report


def ask_for_copy(target: Target) -> CopyState | None:
    """Read the status of `charonia sync --watch`; None where it does not answer, or has not copied anything yet."""
    connection = HTTPConnection(target.address, target.status_port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/")
        told = json.loads(connection.getresponse().read(_LONGEST_ANSWER_BYTES))
        cause, revision = str(told["reason"]), str(told["revision"])
        state = CopyState(cause, str(told["message"]), revision, told["objects"]["total"], told["bytes"]["total"])
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return None
    else:
        return state if cause and revision else None
    finally:
        connection.close()


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
