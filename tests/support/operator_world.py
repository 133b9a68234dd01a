"""An operator and a cluster in memory: passes over a service, and what a cluster's controllers do between them."""

from collections.abc import Callable
from typing import Any, Self

from charonia_operator.models import ModelWatch, Target
from charonia_operator.naming import REVISION_LABEL, SERVICE_LABEL, Key
from charonia_operator.observation import PodModels
from charonia_operator.reconcile import Reconciler
from charonia_operator.settings import Settings
from charonia_operator.skew import Skew
from charonia_operator.store import Store
from tests.support.fake_cluster import FakeCluster
from tests.support.inference_services import SETTINGS, a_body, crd_schema, faults_of

KEY = ("default", "simple")
LABELS = {"app.kubernetes.io/managed-by": "charonia-operator", SERVICE_LABEL: "simple"}


STATUS = crd_schema()["properties"]["status"]
"""A field that it lacks would be dropped by the API server, and written again at each pass."""


class World:
    """A cluster, and an operator that has seen all of it."""

    def __init__(
        self,
        settings: Settings = SETTINGS,
        cluster: FakeCluster | None = None,
        answer: PodModels | Callable[[Target], PodModels] | None = None,
    ) -> None:
        """`answer`: what pods tell of their models."""
        self.cluster = cluster or FakeCluster()
        self.store = Store()
        self.times = iter(f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z" for second in range(600))
        self.asked: list[Key] = []
        self.after: float | None = None
        ask = answer if callable(answer) else lambda _: answer or PodModels()
        watch = ModelWatch(self.asked.append, every_seconds=30, ask=ask, clock=lambda: 0.0)
        watch._pool = Immediately()
        self.reconciler = Reconciler(
            self.cluster, self.store, settings, watch, Skew(self.cluster), now=lambda: next(self.times)
        )

    def ask(self, **spec: Any) -> Self:
        """What a user does."""
        body = a_body(**spec)
        known = self.cluster.objects.get(("InferenceService", *KEY))
        if known:
            body["metadata"]["generation"] = known["metadata"]["generation"] + 1
            body["status"] = known.get("status", {})
        self.cluster.add(body)
        return self

    def go(self) -> list[tuple[str, str, str]]:
        """A pass; what it wrote."""
        self.cluster.fill(self.store)
        self.cluster.writes.clear()
        self.after = self.reconciler.reconcile(KEY)
        if ("InferenceService", *KEY) in self.cluster.objects:
            assert not self.status or faults_of(self.status, STATUS) == []
        return list(self.cluster.writes)

    @property
    def status(self) -> dict[str, Any]:
        return self.cluster.named("InferenceService").get("status", {})

    def condition(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = next(each for each in self.status["conditions"] if each["type"] == kind)
        return found

    def run_pods(self, count: int = 1, **status: Any) -> Self:
        """What the cluster's controllers say of the Deployment."""
        deployment = self.cluster.named("Deployment")
        numbers = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), count)
        generation = deployment["metadata"].setdefault("generation", 1)
        self.cluster.add({**deployment, "status": {"observedGeneration": generation, **numbers, **status}})
        return self

    def add_pod(self, name: str = "simple-1", node: str = "node-1", **status: Any) -> Self:
        """A pod of the Deployment's template; the one of that name changes."""
        labels = {
            **LABELS,
            REVISION_LABEL: self.cluster.named("Deployment")["spec"]["template"]["metadata"]["labels"][REVISION_LABEL],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node},
        }
        self.cluster.add({**pod, "status": status})
        return self


class Immediately:
    """A pool without threads."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        function(*arguments)


def serving() -> dict[str, Any]:
    """The status of a pod that is ready."""
    sync = {
        "name": "model-sync",
        "state": {"terminated": {"exitCode": 0, "message": '{"revision": "sha256:ab", "objects": 3}'}},
    }
    return {
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "initContainerStatuses": [sync],
        "containerStatuses": [{"name": "server", "started": True, "state": {"running": {}}}],
    }


def failed(container: str, message: str, reason: str = "Error", waiting: str = "CrashLoopBackOff") -> dict[str, Any]:
    """The status of a pod of which a container has ended with these words."""
    state = {"waiting": {"reason": waiting}}
    ended = {"terminated": {"exitCode": 1, "reason": reason, "message": message}}
    status = {"name": container, "state": state, "lastState": ended, "image": "example.com/runtime:1"}
    return {"containerStatuses" if container == "server" else "initContainerStatuses": [status]}
