"""
The leadership: of several operators one writes, the one that holds the Lease.

A holder renews the Lease every two seconds, and stops writing when it could not renew it for eight. Another operator
takes the Lease over when it has seen no renewal for twelve seconds. Both go by their own clocks, which need not agree.
An operator that stops in an orderly way gives the Lease back.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from charonia_operator.cluster import ClusterError
from charonia_operator.naming import JSON, LEASE, ResourceKind

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 2.0
_HELD_SECONDS = 8.0
_LEASE_SECONDS = 12


class LeaseCluster(Protocol):
    """What the leadership asks of the cluster. All of it raises ClusterError."""

    def get(self, kind: ResourceKind, namespace: str, name: str) -> JSON | None: ...
    def create(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON: ...
    def apply(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON: ...


def micro_now() -> str:
    """The time as Leases have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class Leadership:
    """The part of one operator, `identity`. Without a Lease (`lease` is empty) it leads always, and alone."""

    cluster: LeaseCluster
    identity: str
    lease: str = ""
    """Namespace and name, with a slash between."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], str] = micro_now
    _until: float = float("-inf")
    _seen: tuple[str, str] = ("", "")
    """Holder and time of renewal, as they were read last."""
    _seen_at: float = float("-inf")
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def held(self) -> bool:
        """Whether this operator may write, now."""
        return not self.lease or self.clock() < self._until

    def wait(self, stopping: threading.Event) -> bool:
        """Return True as soon as this operator leads; False when it is to stop."""
        with self._changed:
            while not self.held and not stopping.is_set():
                self._changed.wait(_RETRY_SECONDS)
        return not stopping.is_set()

    def campaign(self, stopping: threading.Event) -> None:
        """Take the Lease when it is free, and renew it, until `stopping`."""
        told = led = False
        while not stopping.is_set() and self.lease:
            try:
                self.step()
                told = False
            except ClusterError as error:
                if not told:
                    _log.warning("cannot read or renew Lease %s: %s", self.lease, error)
                told = True
            if led != self.held:
                led = self.held
                _log.warning("%s %s Lease %s", self.identity, "holds" if led else "does not hold any more", self.lease)
            with self._changed:
                self._changed.notify_all()
            stopping.wait(_RETRY_SECONDS)
        stopping.wait()

    def step(self) -> None:
        """Renew or take the Lease, or see who holds it. Raises ClusterError."""
        begun = self.clock()
        namespace, _, name = self.lease.partition("/")
        live = self.cluster.get(LEASE, namespace, name)
        spec = (live or {}).get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", str(spec.get("renewTime", ""))
        if (holder, renewed) != self._seen:
            self._seen, self._seen_at = (holder, renewed), begun
        mine = holder == self.identity
        if holder and not mine and begun - self._seen_at < _LEASE_SECONDS:
            self._until = float("-inf")
            return
        try:
            self._write(live, spec, self.identity, renewed_only=mine)
        except ClusterError as error:
            if error.status != 409:
                raise
            return  # another one was quicker
        self._until = begun + _HELD_SECONDS

    def give_back(self) -> None:
        """Let another operator lead at once. Nothing may be written any more."""
        if not self.lease or not self.held:
            return
        self._until = float("-inf")
        namespace, _, name = self.lease.partition("/")
        try:
            live = self.cluster.get(LEASE, namespace, name)
            if live and live["spec"].get("holderIdentity") == self.identity:
                self._write(live, live["spec"], "", renewed_only=True)
        except ClusterError as error:
            _log.warning("cannot give Lease %s back: %s", self.lease, error)

    def _write(self, live: JSON | None, spec: Mapping[str, Any], holder: str, *, renewed_only: bool) -> None:
        """Write the Lease, if it still is as it was read. Raises ClusterError, with status 409 where it is not."""
        namespace, _, name = self.lease.partition("/")
        now = self.now()
        metadata: JSON = {"name": name, "namespace": namespace}
        body: JSON = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": _LEASE_SECONDS,
                "renewTime": now,
                "acquireTime": spec.get("acquireTime", now) if renewed_only else now,
                "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if renewed_only else 1),
            },
        }
        if live is None:
            self.cluster.create(LEASE, body)
        else:
            metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
            self.cluster.apply(LEASE, body)
