"""
A cluster, the operator installed by its chart, a bucket, and a pod that asks.

The cluster is that of KUBECONFIG where CHARONIA_E2E_RUNTIME_IMAGE and CHARONIA_E2E_OPERATOR_IMAGE name the images that
its nodes have or can pull, else one of this machine where CHARONIA_KUBERNETES names a folder with its programs.
"""

import contextlib
import faulthandler
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.support.client_pod import ClientPod
from e2e.support.cluster import Cluster, GivenCluster
from e2e.support.images import CACHE
from e2e.support.kubectl import CommandError
from e2e.support.local_node import LocalNode
from e2e.support.models import multiplier
from e2e.support.object_store import KEY_ID, KEY_SECRET, ObjectStore
from e2e.support.release import NAMESPACE as OPERATOR
from e2e.support.release import Release
from e2e.support.services import Service

SERVICES, TOOLS = "charonia-e2e", "charonia-e2e-tools"
_CLUSTER = pytest.StashKey[Cluster]()
NINE_LINES = """\
apiVersion: serving.charonia.dev/v1alpha1
kind: InferenceService
metadata: {name: simple}
spec:
  modelRepository:
    uri: s3://models/simple
    endpoint: ENDPOINT
    credentials: {secretRef: {name: bucket}}
  replicas: 1
"""
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def pytest_runtest_setup():
    # The first test waits for a cluster: that is no hang, whose stacks were worth printing.
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    cluster = item.config.stash.get(_CLUSTER, None)
    if report.failed and cluster:
        report.sections.append(("the cluster", _shown(cluster)))
    return report


def _shown(cluster):
    texts = []
    for command in (
        ("get", "infsvc,pods,deployments", "-A", "-o", "wide"),
        ("get", "events", "-n", SERVICES, "--sort-by=.lastTimestamp"),
        ("logs", "-n", OPERATOR, "-l", "app.kubernetes.io/name=charonia-operator", "--tail=60"),
        ("logs", "-n", SERVICES, "-l", "serving.charonia.dev/service", "--all-containers", "--prefix", "--tail=25"),
    ):
        with contextlib.suppress(CommandError):
            texts.append(f"$ kubectl {' '.join(command)}\n{cluster.kubectl(*command)[-6000:]}")
    return "\n".join(texts)


@pytest.fixture(scope="session")
def cluster(pytestconfig) -> Iterator[Cluster]:
    given = GivenCluster.of_environment()
    if given:
        pytestconfig.stash[_CLUSTER] = given
        yield given
        return
    scripts = os.environ.get("CHARONIA_KUBERNETES")
    if not scripts:
        pytest.skip("no cluster: set KUBECONFIG, CHARONIA_E2E_RUNTIME_IMAGE and CHARONIA_E2E_OPERATOR_IMAGE")
    if reason := LocalNode.unfit():
        pytest.skip(f"no cluster on this machine: {reason}")
    # To be told to stop is no reason to leave a cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    node = LocalNode(Path(scripts), CACHE / "node")
    try:
        node.start()
        pytestconfig.stash[_CLUSTER] = node
        yield node
    finally:
        node.stop()


@pytest.fixture(scope="session")
def release(cluster, _namespaces) -> Iterator[Release]:
    installed = Release(cluster)
    installed.install()
    yield installed
    if not cluster.is_ours:
        cluster.kubectl("delete", "infsvc", "--all", "-n", SERVICES)
        installed.uninstall()


@pytest.fixture(scope="session")
def _namespaces(cluster):
    for name in (SERVICES, TOOLS, OPERATOR):
        cluster.kubectl("wait", f"namespace/{name}", "--for=delete", "--timeout=120s", seconds=150)  # of the last run
        metadata = {"name": name, "labels": _RESTRICTED}
        cluster.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    secret = {"accessKeyId": KEY_ID, "accessKeySecret": KEY_SECRET}
    cluster.kubectl.apply({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bucket", "namespace": SERVICES}, "stringData": secret,
    })  # fmt: skip
    yield
    if not cluster.is_ours:
        cluster.kubectl("delete", "namespace", SERVICES, TOOLS, OPERATOR, "--wait=false")


@pytest.fixture(scope="session")
def store(cluster, _namespaces) -> Iterator[ObjectStore]:
    bucket = ObjectStore(TOOLS)
    bucket.start(cluster, cluster.images.store)
    with cluster.reach(TOOLS, "store", 9000) as address, contextlib.closing(bucket):
        bucket.connect(address)
        yield bucket


@pytest.fixture(scope="session")
def client(cluster, _namespaces, tmp_path_factory) -> ClientPod:
    pod = ClientPod(cluster, TOOLS)
    pod.start(cluster.images.runtime, tmp_path_factory.mktemp("packages"))
    return pod


@pytest.fixture(scope="session")
def a_service(release, store) -> Callable[[str], Service]:
    """Names a service of a folder of the bucket. What a test applies and does not delete goes with the session."""
    return lambda name: Service(release.cluster, SERVICES, name, store.endpoint)


@pytest.fixture(scope="session")
def simple(a_service, store) -> Service:
    """A service that serves model `double`, for tests that leave it as it is."""
    service = a_service("simple")
    store.put(multiplier("double", 2), "simple/")
    service.apply(NINE_LINES.replace("ENDPOINT", store.endpoint))
    service.wait_until_ready()
    return service
