"""A real Kubernetes API server for tests: etcd, kube-apiserver and, where they are found, the controllers and kwok."""

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - {level: Metadata, users: [operator], verbs: [create, update, patch, delete, deletecollection, get, list, watch]}
  - {level: Metadata, userGroups: ["system:serviceaccounts:operators"]}
  - {level: None}
"""
_START_SECONDS = 60


def find_programs() -> Path | None:
    """Where etcd and kube-apiserver are, as envtest looks for them."""
    for folder in (os.environ.get("KUBEBUILDER_ASSETS", ""), "/usr/local/kubebuilder/bin"):
        if folder and (Path(folder) / "kube-apiserver").exists() and (Path(folder) / "etcd").exists():
            return Path(folder)
    return None


class RefusedError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class ApiServer:
    """Everything in `folder`; on free ports of this machine."""

    def __init__(self, programs: Path, folder: Path, *, controllers: bool = True) -> None:
        self.programs = programs
        self._controllers = controllers
        self.folder = folder
        self.audit_log = folder / "audit.log"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: _free_port() for name in ("etcd", "api", "controllers", "scheduler")}
        self._token = secrets.token_hex(16)
        self._operator_token = secrets.token_hex(16)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._ports['api']}"

    @property
    def has_controllers(self) -> bool:
        return self._controllers and all(
            (self.programs / name).exists() for name in ("kube-controller-manager", "kube-scheduler", "kwok")
        )

    def start(self) -> None:
        self._write_files()
        etcd = f"http://127.0.0.1:{self._ports['etcd']}"
        peers = "http://127.0.0.1:0"
        self._launch(
            "etcd", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", "--name=test", f"--initial-cluster=test={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--listen-peer-urls={peers}",
        )  # fmt: skip
        self.start_api_server()
        if self.has_controllers:
            self._start_controllers()

    def start_api_server(self) -> None:
        pki = self.folder / "pki"
        self._launch(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}", "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['api']}", f"--cert-dir={pki}", "--endpoint-reconciler-type=none",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--service-account-issuer=https://test",
            f"--service-account-key-file={pki / 'accounts.pub'}", "--shutdown-send-retry-after=false",
            f"--service-account-signing-key-file={pki / 'accounts.key'}", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16", "--profiling=false",
            f"--audit-policy-file={self.folder / 'audit.yaml'}", f"--audit-log-path={self.audit_log}",
        )  # fmt: skip
        self._wait_for("/readyz")

    @property
    def certificate(self) -> Path:
        """The API server's own, which it made itself."""
        return self.folder / "pki/apiserver.crt"

    def stop_api_server(self) -> None:
        self._end("kube-apiserver")

    def stop(self) -> None:
        for name in reversed(self._processes):
            self._end(name)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", *, token: str = ""
    ) -> Any:
        """As the administrator, or as whoever has `token`. Raises RefusedError."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": content_type}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with _opener().open(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, error.read().decode()) from None
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def apply(self, body: Any) -> Any:
        """Server-side apply by somebody who is not the operator."""
        metadata, version = body["metadata"], body["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        kind = body["kind"].lower()
        plural = kind + ("es" if kind.endswith("s") else "s")
        path = f"{root}{where}/{plural}/{metadata['name']}?fieldManager=test&force=true"
        return self.request("PATCH", path, body, "application/apply-patch+yaml")

    def kubeconfig(self, token: str = "", name: str = "kubeconfig", url: str = "") -> Path:
        """Of the administrator, or of whoever has `token`; `url` where something lies between."""
        file = self.folder / name
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": url or self.url, "insecure-skip-tls-verify": True}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {"token": token or self._token}}],
        }
        file.write_text(yaml.dump(document))
        return file

    def operator_kubeconfig(self, url: str = "") -> Path:
        """Of user `operator`, who may do what is granted to that name."""
        name = f"operator-{url.rpartition(':')[2]}.kubeconfig" if url else "operator.kubeconfig"
        return self.kubeconfig(self._operator_token, name, url)

    def audited(self) -> list[tuple[str, str, str]]:
        """What operators did so far: verb, group/resource, name."""
        found = []
        for entry in self.audit_entries():
            reference = entry.get("objectRef", {})
            resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
            group = reference.get("apiGroup", "")
            found.append((entry["verb"], f"{group}/{resource}", reference.get("name", "")))
        return found

    def audit_entries(self) -> list[dict[str, Any]]:
        """The same as the API server writes it down."""
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]

    def _write_files(self) -> None:
        pki = self.folder / "pki"
        pki.mkdir(parents=True)
        openssl = shutil.which("openssl") or "openssl"
        key, public = pki / "accounts.key", pki / "accounts.pub"
        subprocess.run([openssl, "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run([openssl, "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        (self.folder / "audit.yaml").write_text(_AUDIT)
        (self.folder / "tokens.csv").write_text(
            f'{self._token},admin,admin,"system:masters"\n{self._operator_token},operator,operator,"operators"\n'
        )

    def restart_controllers(self) -> None:
        """Some of them do not find back by themselves after a long absence of the API server."""
        for name in ("kwok", "kube-scheduler", "kube-controller-manager"):
            self._end(name)
        self._launch_controllers()

    def _start_controllers(self) -> None:
        self._launch_controllers()
        offer = {"cpu": "64", "memory": "256Gi", "pods": "1000", "nvidia.com/gpu": "4"}
        for number in range(2):
            labels = {"kubernetes.io/hostname": f"node-{number}"}
            status = {"capacity": offer, "allocatable": offer}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
            self.request("POST", "/api/v1/nodes", {**node, "status": status})
        self._wait_for("/api/v1/namespaces/default/serviceaccounts/default")

    def _launch_controllers(self) -> None:
        kubeconfig = self.kubeconfig()
        key = self.folder / "pki/accounts.key"
        self._launch(
            "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['controllers']}", f"--service-account-private-key-file={key}",
            "--kube-api-qps=500", "--kube-api-burst=1000", "--node-monitor-grace-period=8760h",
            "--horizontal-pod-autoscaler-sync-period=1s",
            f"--flex-volume-plugin-dir={self.folder / 'flexvolume'}", f"--cert-dir={self.folder / 'pki'}",
        )  # fmt: skip
        self._launch(
            "kube-scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['scheduler']}", "--kube-api-qps=500", "--kube-api-burst=1000",
        )  # fmt: skip
        self._launch("kwok", f"--kubeconfig={kubeconfig}", "--manage-all-nodes")

    def _launch(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [self.programs / program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _end(self, program: str) -> None:
        process = self._processes[program]
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_for(self, path: str) -> None:
        end = time.monotonic() + _START_SECONDS
        while True:
            with contextlib.suppress(RefusedError, OSError):
                self.request("GET", path)
                return
            if self._processes["kube-apiserver"].poll() is not None or time.monotonic() > end:
                log = (self.folder / "kube-apiserver.log").read_text()
                raise RuntimeError(f"the API server does not start:\n{log[-3000:]}")
            time.sleep(0.1)


@contextlib.contextmanager
def running_api_server(programs: Path, folder: Path, *, controllers: bool = True) -> Iterator[ApiServer]:
    server = ApiServer(programs, folder, controllers=controllers)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def encoded(text: str) -> str:
    """As a Secret holds it."""
    return base64.b64encode(text.encode()).decode()


def _opener() -> urllib.request.OpenerDirector:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
