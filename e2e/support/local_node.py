"""A cluster of one node on this machine, of the programs and scripts in the folder that CHARONIA_KUBERNETES names."""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from e2e.support.cluster import Images
from e2e.support.images import ImageFolder
from e2e.support.kubectl import Kubectl, run

_PROGRAMS = ("containerd", "runc", "iptables", "conntrack", "ip", "busybox", "openssl", "xz")
_PACKAGES = "containerd runc containernetworking-plugins iptables conntrack iproute2 busybox openssl xz-utils"
_MARK = Path("/run/kubernetes-node/folder")
"""Names the folder of the node that this machine has."""
_SCRIPT_SECONDS = 600
_GPUS = 2


class LocalNode:
    """From `start` to `stop`. One a machine."""

    is_ours = True
    gpus = _GPUS

    def __init__(self, scripts: Path, folder: Path) -> None:
        self._scripts = scripts
        self._folder = folder
        self._programs = Path()
        self._environment = {"NO_PROXY": "127.0.0.1,10.245.0.1,10.96.0.0/16,10.244.0.0/24"}
        self.kubectl = Kubectl("kubectl", {})
        self.images = Images("", "", "")
        self._lock: IO[str] | None = None

    @staticmethod
    def unfit() -> str:
        """Why this machine cannot be a node, or an empty string."""
        if os.geteuid():
            return "containers need root"
        if not Path("/etc/debian_version").exists() or os.uname().machine != "x86_64":
            return "the programs are for Debian on x86_64"
        missing = [program for program in _PROGRAMS if not shutil.which(program)]
        if missing or not Path("/usr/lib/cni/bridge").exists():
            return f"not installed: {' '.join(missing)}; apt-get install --no-install-recommends {_PACKAGES}"
        return ""

    def start(self) -> None:
        """
        With images of the Dockerfiles, and GPUs that are names only.

        Waits for the end of another run. What one that was killed has left is taken away.
        """
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        lock = self._folder.with_suffix(".lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._lock = lock
        if _MARK.exists() and _MARK.read_text().strip() == str(self._folder):
            self._script("stop")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._programs = Path(run([self._scripts / "unpack.sh"]).strip())
        self._environment |= {"KUBECONFIG": str(self._folder / "kubeconfig"), "KUBE_PROGRAMS": str(self._programs)}
        self.kubectl = Kubectl(self._programs / "kubectl", self._environment)
        made = ImageFolder(self._scripts / "image.py", self._programs)
        self.images = Images(made.runtime(), made.operator(), made.store())
        self._begin()
        self._script("image", *map(str, made.tars))

    def stop(self) -> None:
        """End what `start` began, as far as it came, and take away what it made outside its folder."""
        if self._lock:
            self._script("stop")
            shutil.rmtree(self._folder)
            self._lock.close()

    def restart(self) -> None:
        self._script("stop")
        self._begin()

    def helm(self, *arguments: str) -> str:
        return run([self._programs / "helm", *arguments], environment=self._environment, seconds=400)

    @contextlib.contextmanager
    def reach(self, namespace: str, service: str, port: int) -> Iterator[str]:
        yield f"{self.kubectl.get('service', service, namespace)['spec']['clusterIP']}:{port}"

    def _begin(self) -> None:
        self._script("start")
        self._script("gpus", str(_GPUS))

    def _script(self, verb: str, *arguments: str) -> None:
        # The node's programs outlive the script: pipes that they keep open would make it seem to go on.
        log = self._folder / "node.log"
        with log.open("ab") as out:
            done = subprocess.run(
                [self._scripts / "node.sh", verb, self._folder, *arguments], stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, env={**os.environ, **self._environment}, timeout=_SCRIPT_SECONDS, check=False,
            )  # fmt: skip
        assert done.returncode == 0, f"node.sh {verb}: {log.read_text()[-3000:]}"
