"""What the tests ask of a cluster, and the cluster that KUBECONFIG names."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from e2e.support.kubectl import Kubectl, run

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Images:
    """What pods run: names of images that the nodes have or can pull."""

    runtime: str
    operator: str
    store: str


class Cluster(Protocol):
    """A cluster with nodes that run containers."""

    kubectl: Kubectl
    images: Images
    is_ours: bool
    """Whether the tests have made it: they may restart it, and need not tidy it up."""

    def helm(self, *arguments: str) -> str:
        """What `helm <arguments>` prints. Raises CommandError."""
        ...

    def reach(self, namespace: str, service: str, port: int) -> contextlib.AbstractContextManager[str]:
        """An address, `host:port`, by which this machine reaches a port of a Service."""
        ...

    @property
    def gpus(self) -> int:
        """How many GPUs the nodes offer."""
        ...

    def restart(self) -> None:
        """End every process of the cluster that is ours, containers included, and start it again."""
        ...


class GivenCluster:
    """The cluster of KUBECONFIG. Images come from the environment, and Services are reached by forwarded ports."""

    is_ours = False

    def __init__(self, images: Images) -> None:
        self.images = images
        self.kubectl = Kubectl(shutil.which("kubectl") or "kubectl", {})

    @classmethod
    def of_environment(cls) -> "GivenCluster | None":
        """What the environment names, if it does."""
        runtime, operator = (os.environ.get(f"CHARONIA_E2E_{name}_IMAGE", "") for name in ("RUNTIME", "OPERATOR"))
        if not (os.environ.get("KUBECONFIG") and runtime and operator):
            return None
        store = os.environ.get("CHARONIA_E2E_STORE_IMAGE", "minio/minio:RELEASE.2025-09-07T16-13-09Z")
        return cls(Images(runtime, operator, store))

    def helm(self, *arguments: str) -> str:
        return run(["helm", *arguments], seconds=400)

    @contextlib.contextmanager
    def reach(self, namespace: str, service: str, port: int) -> Iterator[str]:
        with self.kubectl.start("port-forward", "-n", namespace, f"service/{service}", f":{port}") as forwarding:
            try:
                assert forwarding.stdout
                line = forwarding.stdout.readline()
                found = _FORWARDING.search(line)
                assert found, f"kubectl port-forward says {line!r}"
                yield f"127.0.0.1:{found[1]}"
            finally:
                forwarding.terminate()

    @property
    def gpus(self) -> int:
        offers = (node["status"]["allocatable"].get("nvidia.com/gpu", "0") for node in self.kubectl.list("nodes"))
        return sum(int(offer) for offer in offers)

    def restart(self) -> None:
        raise NotImplementedError
