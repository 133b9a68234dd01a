"""The operator, installed by its chart."""

from e2e.support.cluster import Cluster
from e2e.support.images import ROOT

NAMESPACE = "charonia-system"
_NAME = "charonia"
_MODEL_POLL_SECONDS = 2


class Release:
    """`helm install` to `helm uninstall`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def install(self) -> None:
        """Returns once the operator's pod is Ready."""
        images = self.cluster.images
        repository, _, tag = images.operator.rpartition(":")
        values = {
            "image.repository": repository,
            "image.tag": tag,
            "defaults.runtimeImage": images.runtime,
            "defaults.runtimeGpuImage": images.runtime,
            "limits.modelPollSeconds": _MODEL_POLL_SECONDS,
        }
        options = [f"--set={name}={value}" for name, value in values.items()]
        self.cluster.helm("install", _NAME, str(ROOT / "charts/charonia"), f"--namespace={NAMESPACE}",
                           "--wait", "--timeout=300s", *options)  # fmt: skip

    def uninstall(self) -> None:
        """Returns once the operator's pod is gone."""
        self.cluster.helm("uninstall", _NAME, f"--namespace={NAMESPACE}", "--wait", "--timeout=120s")
        self.wait_until_gone()

    def wait_until_gone(self) -> None:
        """Until no pod of the operator is left."""
        self.cluster.kubectl("wait", "pods", "--all", "--for=delete", "-n", NAMESPACE, "--timeout=120s", seconds=150)

    def deployment(self) -> str:
        """kubectl's name of the operator."""
        return f"deployment/{_NAME}"

    def log(self) -> str:
        """What the operator says."""
        selector = f"app.kubernetes.io/instance={_NAME}"  # both pods: one leads, the other stands by
        return self.cluster.kubectl("logs", f"--selector={selector}", "-n", NAMESPACE, "--tail=-1")
