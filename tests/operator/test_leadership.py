"""Of several operators one writes: the machine over a cluster in memory, and two processes against an API server."""

import threading
import time

import pytest

from charonia_operator.cluster import ClusterError
from charonia_operator.leadership import Leadership
from charonia_operator.naming import LEASE
from tests.support.fake_cluster import FakeCluster
from tests.support.operator_process import OperatorProcess, eventually


class Rivals:
    """Operators with one clock, or with clocks that differ."""

    def __init__(self, *names):
        self.time = 0.0
        self.cluster = FakeCluster()
        self.operators = {
            name: Leadership(
                self.cluster, name, "default/charonia", clock=lambda shift=number: self.time + 1000 * shift,
                now=lambda: f"at {self.time}",
            )
            for number, name in enumerate(names)
        }  # fmt: skip

    def step(self, *names, seconds=2.0):
        self.time += seconds
        for name in names:
            self.operators[name].step()
        return self.leaders

    @property
    def leaders(self):
        return [name for name, operator in self.operators.items() if operator.held]


def test_the_first_one_leads():
    rivals = Rivals("a", "b")

    for _ in range(20):
        assert rivals.step("a", "b") == ["a"]
    spec = rivals.cluster.named("Lease", "charonia")["spec"]
    assert spec == {
        "holderIdentity": "a",
        "leaseTransitions": 1,
        "leaseDurationSeconds": 12,
        "acquireTime": "at 2.0",
        "renewTime": "at 40.0",
    }


def test_another_one_takes_over_and_the_first_one_had_stopped_before():
    rivals = Rivals("a", "b")
    rivals.step("a", "b")
    history = [rivals.step("b", seconds=1.0) for _ in range(20)]

    assert all(len(leaders) <= 1 for leaders in history)
    assert [] in history
    assert history.index(["b"]) <= 16
    assert rivals.step("a", "b") == ["b"], "it comes back, and stands by"


def test_a_leader_that_is_frozen_does_not_write_when_it_wakes():
    rivals = Rivals("a", "b")
    rivals.step("a")

    rivals.time += 60

    assert rivals.leaders == []


def test_what_is_given_back_is_taken_at_once():
    rivals = Rivals("a", "b")
    rivals.step("a", "b")

    rivals.operators["a"].give_back()

    assert rivals.leaders == []
    assert rivals.step("b", "a") == ["b"]
    rivals.operators["a"].give_back()
    assert rivals.step("b") == ["b"]


def test_an_outage_ends_the_leadership_and_its_end_gives_it_back():
    rivals = Rivals("a")
    rivals.step("a")
    rivals.cluster.refuse["apply", LEASE.kind] = ClusterError(503, "Unavailable", "no")
    for _ in range(4):
        with pytest.raises(ClusterError):
            rivals.step("a")
    assert rivals.leaders == []

    rivals.cluster.refuse.clear()

    assert rivals.step("a") == ["a"]


def test_two_that_take_it_at_the_same_time():
    rivals = Rivals("a", "b")
    rivals.cluster.refuse["apply", LEASE.kind] = ClusterError(409, "Conflict", "another one was quicker")

    assert rivals.step("a", "b") == []


def test_without_a_lease_an_operator_leads_always():
    alone, stopping = Leadership(FakeCluster(), "a"), threading.Event()

    assert alone.held
    assert alone.wait(stopping)
    stopping.set()
    alone.campaign(stopping)
    alone.give_back()
    assert alone.cluster.objects == {}


@pytest.mark.timeout(300)
def test_a_standby_takes_over(api_server, cluster, namespace, tmp_path):
    """It writes nothing before the leader is killed, and serves what is asked for within twenty seconds after."""
    lease = f"--lease={namespace}/charonia"
    _grant_leases(api_server, namespace)
    with (
        OperatorProcess(api_server, namespace, tmp_path / "first.log", lease) as first,
        OperatorProcess(api_server, namespace, tmp_path / "second.log", lease) as second,
    ):
        eventually(lambda: "holds Lease" in first.log() + second.log(), 60)
        leader, standby = (second, first) if "holds Lease" in second.log() else (first, second)
        cluster.apply("before")
        eventually(lambda: cluster.is_ready("before"), 60)
        eventually(lambda: "1 services" in standby.log() or "0 services" in standby.log(), 60)
        assert ": creating " not in standby.log()
        assert len(_status_writes(api_server, "before")) <= 6, "one operator's"

        leader.kill()
        killed = time.monotonic()
        cluster.apply("after")

        eventually(lambda: cluster.names("deployments")[1:], 40)
        assert time.monotonic() - killed < 20
        eventually(lambda: cluster.is_ready("after"), 60)
        assert "holds Lease" in standby.log()
        assert "before: creating" not in standby.log(), "what is as it should be is left alone"
        assert "before: applying" not in standby.log()


@pytest.mark.timeout(300)
def test_a_leader_that_wakes_stands_by(api_server, cluster, namespace, tmp_path):
    lease = f"--lease={namespace}/charonia"
    _grant_leases(api_server, namespace)
    with OperatorProcess(api_server, namespace, tmp_path / "first.log", lease) as first:
        eventually(lambda: "holds Lease" in first.log(), 60)
        with OperatorProcess(api_server, namespace, tmp_path / "second.log", lease) as second:
            first.freeze()
            cluster.apply()
            eventually(cluster.is_ready, 60)
            first.thaw()
            eventually(lambda: "does not hold any more" in first.log(), 60)
            cluster.apply("other")
            eventually(lambda: cluster.is_ready("other"), 60)

            assert ": creating " not in first.log()
            assert second.stop() == 0
            cluster.apply("third")
            eventually(lambda: cluster.is_ready("third"), 15)


def _status_writes(server, name):
    return [each for each in server.audited() if each[1].endswith("inferenceservices/status") and each[2] == name]


def _grant_leases(server, namespace):
    """What the chart's Role for the leadership grants."""
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "charonia-leadership", "namespace": namespace}}
    verbs = ["create", "get", "patch"]
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}]
    server.apply({**head, "kind": "Role", "rules": rules})
    reference = {"apiGroup": group, "kind": "Role", "name": "charonia-leadership"}
    subjects = [{"apiGroup": group, "kind": "User", "name": "operator"}]
    server.apply({**head, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects})
