"""
A thousand services, their pods played by kwok: what they cost the operator, before and after a restart.

Run with `-m slow -s` it prints the figures; CHARONIA_PODS_EACH=10 makes ten thousand pods of them.
"""

import contextlib
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from charonia_operator.naming import API_VERSION
from tests.support.operator_process import OperatorProcess, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
SERVICES = 1000
REPLICAS = int(os.environ.get("CHARONIA_PODS_EACH", "2"))
_MIB = 1 << 20


@dataclass(frozen=True)
class Bounds:
    """What the operator may need: MiB at any time, first and after a restart, and requests until a service is Ready."""

    memory: int
    requests: float


BOUNDS = {2: Bounds(180, 10.0), 10: Bounds(400, 18.0)}
"""By the pods of each service."""


def test_many_services(api_server, cluster, namespace, tmp_path, monkeypatch):
    """All become ready; then another operator starts and finds nothing to write."""
    bounds = BOUNDS[REPLICAS]
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")  # as the image has it
    _add_nodes(api_server, SERVICES * REPLICAS // 500)
    for number in range(SERVICES):
        cluster.apply(f"service-{number}", replicas=REPLICAS)
    path = cluster.path("inferenceservices", "", API_VERSION)

    def ready():
        services = api_server.request("GET", path)["items"]
        return sum(each.get("status", {}).get("readyReplicas") == REPLICAS for each in services) == SERVICES

    with OperatorProcess(api_server, namespace, tmp_path / "first.log", "--model-poll-seconds=3600") as first:
        began, since = time.monotonic(), cluster.moment()
        _eventually_slowly(ready, 1500)
        seconds = time.monotonic() - began
        cluster.quiet(10)
        done = Counter(f"{verb} {kind}" for verb, kind, _ in api_server.audited()[since:])
        requests = done.total() / SERVICES
        before = _figures(first)
        first.kill()
    print(f"\n{SERVICES} services with {REPLICAS} pods each: ready in {seconds:.0f} s")
    print(f"{requests:.1f} requests a service: {dict(done.most_common(8))}")
    since = cluster.moment()
    with OperatorProcess(api_server, namespace, tmp_path / "second.log", "--model-poll-seconds=3600") as second:
        eventually(lambda: f"{SERVICES} services" in second.log(), 120)
        time.sleep(30)
        after = _figures(second)
        second.kill()
    restart = api_server.audited()[since:]
    print(f"before a restart: {before}; after it: {after}, {len(restart)} requests")
    _delete_all(cluster)

    assert [each for each in restart if each[0] in {"create", "update", "patch", "delete"}] == []
    assert len(restart) < 100 + 2 * SERVICES * (6 + REPLICAS) / 50, "reads: kinds times pages, and the watches"
    assert requests <= bounds.requests
    assert max(before.peak, after.peak) <= bounds.memory


@dataclass(frozen=True)
class Figures:
    """What a process has used: seconds of its processors, MiB of memory now and at most."""

    processor: float
    memory: float
    peak: float

    def __str__(self) -> str:
        return f"{self.processor:.0f} s of processors, {self.memory:.0f} MiB, at most {self.peak:.0f} MiB"


def _figures(operator):
    process = psutil.Process(operator.process.pid)
    times = process.cpu_times()
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return Figures(times.user + times.system, process.memory_info().rss / _MIB, peak / 1024)


def _add_nodes(server, count):
    offer = {"cpu": "256", "memory": "1024Gi", "pods": "1000"}
    for number in range(count):
        name = f"extra-{number}"
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        status = {"capacity": offer, "allocatable": offer}
        server.request("POST", "/api/v1/nodes", {"kind": "Node", "metadata": metadata, "status": status})


def _eventually_slowly(look, seconds):
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end
        time.sleep(2)


def _delete_all(cluster):
    with contextlib.suppress(OSError):  # it takes longer than a client waits
        cluster.server.request("DELETE", cluster.path("inferenceservices", "", API_VERSION))
    _eventually_slowly(lambda: not cluster.names("pods", "v1"), 900)
