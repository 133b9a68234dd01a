"""InferenceServices as their users handle them."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

from e2e.support.asking import ask
from e2e.support.cluster import Cluster
from e2e.support.object_store import BUCKET
from e2e.support.waiting import eventually

READY_SECONDS = 240
CHANGE_SECONDS = 120
_LABEL = "serving.charonia.dev/service"


@dataclass(frozen=True)
class Service:
    """One InferenceService of a bucket's folder of its own name."""

    cluster: Cluster
    namespace: str
    name: str
    endpoint: str

    def body(self, **spec: Any) -> dict[str, Any]:
        """Its manifest; `spec` is laid over what every service here has."""
        repository = {
            "uri": f"s3://{BUCKET}/{self.name}",
            "endpoint": self.endpoint,
            "credentials": {"secretRef": {"name": "bucket"}},
        } | spec.get("modelRepository", {})
        return {
            "apiVersion": "serving.charonia.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": self.name},
            "spec": {
                "drain": {"preStopDelaySeconds": 2, "terminationGracePeriodSeconds": 10},
                **spec,
                "modelRepository": repository,
            },
        }

    def apply(self, manifest: str | Mapping[str, Any] | None = None, **spec: Any) -> str:
        """kubectl apply."""
        return self.cluster.kubectl.apply(manifest or self.body(**spec), "-n", self.namespace)

    def delete(self) -> None:
        self.cluster.kubectl("delete", "infsvc", self.name, "-n", self.namespace, "--ignore-not-found")

    def wait_until_ready(self) -> None:
        """Until it says so, and its Service leads to it, which may be a moment later."""
        self.cluster.kubectl.wait(f"infsvc/{self.name}", "condition=Ready", self.namespace, READY_SECONDS)
        eventually(self._lives, CHANGE_SECONDS, f"{self.name} can be reached")

    def _lives(self) -> bool:
        with self.reach(8000) as address:
            connection = HTTPConnection(address, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", "/v2/health/live")
                return connection.getresponse().status == HTTPStatus.OK

    def wait_for(self, condition: str, status: str, *words: str, seconds: float = CHANGE_SECONDS) -> dict[str, Any]:
        """The condition, once it has this status and its reason and message hold these words."""

        def look() -> dict[str, Any] | None:
            found = self.condition(condition)
            text = f"{found.get('reason')}: {found.get('message')}"
            return found if found.get("status") == status and all(word in text for word in words) else None

        try:
            found: dict[str, Any] = eventually(look, seconds, f"{condition}={status} {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.status()}") from None
        return found

    def live(self) -> dict[str, Any]:
        """As the API server has it."""
        return self.cluster.kubectl.get("infsvc", self.name, self.namespace)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.live().get("status", {})
        return found

    def condition(self, wanted: str) -> dict[str, Any]:
        return next((each for each in self.status().get("conditions", []) if each["type"] == wanted), {})

    def children(self, kinds: str) -> list[dict[str, Any]]:
        """What is in the cluster because of this service."""
        return self.cluster.kubectl.list(kinds, self.namespace, f"{_LABEL}={self.name}")

    def pods(self) -> list[dict[str, Any]]:
        """Its pods that are not about to go."""
        return [pod for pod in self.children("pods") if "deletionTimestamp" not in pod["metadata"]]

    def address(self, port: int) -> str:
        """By which pods reach it."""
        return f"{self.name}.{self.namespace}.svc:{port}"

    def run(self, *program: str, container: str = "server") -> str:
        """What a program prints in the only pod."""
        (pod,) = self.pods()
        name = pod["metadata"]["name"]
        return self.cluster.kubectl("exec", "-n", self.namespace, name, "-c", container, "--", *program)

    def reach(self, port: int) -> contextlib.AbstractContextManager[str]:
        """An address by which this machine reaches it."""
        return self.cluster.reach(self.namespace, self.name, port)

    def ask(self, protocol: str, model: str, values: list, headers: Mapping[str, str] | None = None) -> list:
        """One question from this machine, through the Service."""
        with self.reach({"http": 8000, "grpc": 8001}[protocol]) as address:
            return ask(protocol, address, model, values, headers)
