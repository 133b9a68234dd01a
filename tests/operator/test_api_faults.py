"""An operator whose API server refuses, breaks off, loses events, and falls silent. In between stands a proxy."""

import random
import threading
import time

import pytest

from charonia_operator.naming import API_VERSION
from tests.support.api_proxy import ApiProxy, Refusal
from tests.support.operator_process import OperatorProcess, eventually

pytestmark = pytest.mark.timeout(300)
IMPATIENT = "import charonia_operator.handlers as h; h._WATCHDOG_SECONDS = 0.5"
SHORT_WATCHES = """
import charonia_operator.handlers as h
configure = h.configure
def shorter(settings):
    configure(settings)
    settings.watching.client_timeout = 4
h.configure = shorter
"""
WATCHED = ("inferenceservices", "deployments", "pods", "services")


@pytest.fixture
def proxy(api_server):
    with ApiProxy(api_server) as between:
        yield between


@pytest.fixture
def operator_of(api_server, namespace, proxy, tmp_path):
    """Makes operators behind the proxy, in this test's namespace."""
    made = []

    def make(before=""):
        kubeconfig = api_server.operator_kubeconfig(proxy.url)
        log = tmp_path / f"operator-{len(made)}.log"
        made.append(OperatorProcess(api_server, namespace, log, kubeconfig=kubeconfig, before=before).start())
        return made[-1]

    yield make
    proxy.fault = lambda _: None
    for process in made:
        if process.ended is None:
            process.kill()


@pytest.mark.parametrize(
    ("plural", "code"),
    [
        ("inferenceservices", 500),
        pytest.param("pods", 504, marks=pytest.mark.slow),
        pytest.param("deployments", 401, marks=pytest.mark.slow),
    ],
)
def test_a_watch_that_breaks_for_good_ends_the_process(cluster, proxy, operator_of, plural, code):
    """The next process sees what happened meanwhile. (kopf before 1.45 goes on blind: there the watchdog ends it.)"""
    operator = operator_of(before=IMPATIENT)
    cluster.apply()
    eventually(cluster.is_ready)
    eventually(lambda: proxy.watched(plural))

    proxy.end_watches(plural, code, "etcdserver: leader changed")

    assert eventually(lambda: operator.ended, 20) == 1
    assert f"atcher for {plural}" in operator.log()
    cluster.apply(replicas=2)
    operator_of()
    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 2)


_LONG = 60
"""Seconds; all pauses between tries that kopf has by default are 54."""
LASTING = [
    (Refusal(503, "ServiceUnavailable"), 3),
    pytest.param(Refusal(429, "TooManyRequests"), 10, marks=pytest.mark.slow),
    pytest.param(Refusal(503, "ServiceUnavailable"), _LONG, marks=pytest.mark.slow),
    pytest.param(Refusal(403, "Forbidden"), _LONG, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("refusal", "seconds"), LASTING, ids=lambda each: str(getattr(each, "status", each)))
def test_refusals_that_last(cluster, proxy, operator_of, refusal, seconds):
    """Whatever they are, however long: what happened meanwhile is done after, by the same process."""
    operator = operator_of()
    cluster.apply()
    eventually(cluster.is_ready)
    eventually(lambda: all(proxy.watched(plural) for plural in WATCHED))

    proxy.fault = lambda _: refusal
    for plural in WATCHED:
        proxy.end_watches(plural, 410, "Expired")
    cluster.apply("later")
    cluster.delete("services", "simple", "v1")
    time.sleep(seconds)
    proxy.fault = lambda _: None

    eventually(lambda: cluster.is_ready("later"), 60)
    eventually(lambda: cluster.get("services", "simple", "v1"))
    assert operator.ended is None


def test_what_is_deleted_while_nobody_watches_stays_deleted(cluster, proxy, operator_of):
    """A watch that begins anew does not tell of it; the operator must not bring its children back."""
    operator_of()
    for name in ("stays", "goes", "returns"):
        cluster.apply(name)
    eventually(lambda: all(cluster.is_ready(name) for name in ("stays", "goes", "returns")))
    proxy.fault = lambda request: (
        Refusal(503) if request.watches or request.path.endswith("/inferenceservices") else None
    )

    proxy.end_watches("inferenceservices", 410, "Expired")
    cluster.delete("inferenceservices", "goes", API_VERSION)
    cluster.delete("inferenceservices", "returns", API_VERSION)
    eventually(lambda: not cluster.names("services", "v1")[1:], 60)
    cluster.apply("returns", replicas=2)
    since = cluster.moment()
    proxy.fault = lambda _: None

    eventually(lambda: cluster.service("returns")["status"]["readyReplicas"] == 2, 60)
    cluster.quiet()
    assert sorted(cluster.names("deployments")) == ["returns", "stays"]
    assert not [write for write in cluster.writes(since) if write[2].startswith("goes")]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_kind_of_request_fails_once(cluster, proxy, operator_of):
    """The first of each verb and resource; in the end all is as if nothing had been."""
    failed = set()

    def fail_once(request):
        asked = (request.method, request.path.rpartition("/")[0] if request.method == "PATCH" else request.path)
        if request.watches or asked in failed:
            return None
        failed.add(asked)
        return Refusal(500)

    proxy.fault = fail_once
    operator = operator_of()
    cluster.apply(networking={"ingress": {}}, replicas=2)
    eventually(cluster.is_ready, 400)
    cluster.apply(replicas=1)

    eventually(lambda: cluster.names("poddisruptionbudgets", "policy/v1") == [], 200)
    eventually(lambda: cluster.names("ingresses", "networking.k8s.io/v1") == [], 200)
    eventually(lambda: cluster.condition("Reconciling")["status"] == "False", 200)
    assert {method for method, _ in failed} == {"GET", "PATCH", "POST", "DELETE"}
    assert operator.ended is None


@pytest.mark.slow
def test_late_events(cluster, proxy, operator_of):
    """What the operator wrote and does not see yet is neither written twice nor taken back."""
    chance = random.Random(1)
    proxy.delay = lambda: chance.uniform(0.0, 1.0)
    operator_of()
    cluster.apply()
    eventually(cluster.is_ready, 60)
    since = cluster.moment()

    for replicas in range(2, 7):
        cluster.apply(replicas=replicas)
        time.sleep(0.3)

    eventually(lambda: cluster.service()["status"]["readyReplicas"] == 6, 60)
    cluster.quiet()
    deployments = [write for write in cluster.writes(since) if write[1] == "apps/deployments"]
    assert 1 <= len(deployments) <= 5
    assert cluster.get("deployments")["spec"]["replicas"] == 6


@pytest.mark.slow
def test_a_connection_that_falls_silent(cluster, proxy, operator_of):
    """Packets go nowhere, and nothing says so."""
    silence = threading.Event()
    proxy.delay = lambda: 60.0 if silence.is_set() else 0.0
    operator = operator_of(before=SHORT_WATCHES)
    cluster.apply()
    eventually(cluster.is_ready)

    silence.set()
    cluster.apply("later")
    time.sleep(1)
    silence.clear()

    eventually(lambda: cluster.is_ready("later"), 60)
    assert operator.ended is None


@pytest.mark.slow
def test_it_stops_while_the_api_server_is_silent(cluster, proxy, operator_of):
    held = threading.Event()
    operator = operator_of()
    cluster.apply()
    eventually(cluster.is_ready)

    def hold(_):
        held.set()
        time.sleep(60)

    proxy.fault = hold
    cluster.apply(replicas=2)
    assert held.wait(30)

    operator.stop()

    assert operator.ended is not None


def test_edits_that_come_fast(cluster, proxy, operator_of):
    """The last one counts; the ones before cost little."""
    operator_of()
    cluster.apply()
    eventually(cluster.is_ready)
    since = cluster.moment()

    for number in range(30):
        cluster.apply(replicas=number % 3 + 1, podMetadata={"labels": {"edit": str(number)}})

    label = lambda: cluster.get("deployments")["spec"]["template"]["metadata"]["labels"]["edit"]  # noqa: E731
    eventually(lambda: label() == "29")
    eventually(lambda: cluster.condition("Reconciling")["status"] == "False", 60)
    cluster.quiet()
    written = [write for write in cluster.writes(since) if write[1] == "apps/deployments"]
    assert len(written) <= 30
    eventually(lambda: len(cluster.names("controllerrevisions")) == 1)
