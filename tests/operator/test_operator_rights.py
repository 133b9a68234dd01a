"""Operators with a service account of their own: rights in one namespace, rights that are taken, tokens that rotate."""

import copy
from pathlib import Path

import pytest
import yaml

from tests.operator.conftest import RULES
from tests.support.operator_process import OperatorProcess, eventually
from tests.support.service_accounts import ServiceAccount

pytestmark = pytest.mark.timeout(300)
CHART_RULES = yaml.safe_load(RULES.read_text())
QUICK = "import charonia_operator.workers as w; w._INCOMPLETE_SECONDS = 1"


@pytest.fixture
def account(api_server, cluster, tmp_path):
    return ServiceAccount(api_server, cluster.namespace, tmp_path / "account", CHART_RULES)


@pytest.fixture
def operator(api_server, cluster, account, tmp_path: Path):
    log = tmp_path / "operator.log"
    arguments = {"account": account.folder, "before": QUICK}
    with OperatorProcess(api_server, cluster.namespace, log, "--resync-seconds=3", **arguments) as process:
        yield process


def without(group, resource, verb):
    """The chart's rules but for one verb of one resource."""
    found = []
    for rule in copy.deepcopy(CHART_RULES):
        if group in rule["apiGroups"] and resource in rule["resources"]:
            rest = [name for name in rule["resources"] if name != resource]
            verbs = [each for each in rule["verbs"] if each != verb]
            found += [{**rule, "resources": rest}] if rest else []
            found += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
        else:
            found.append(rule)
    return found


def test_rights_in_one_namespace_are_enough(api_server, cluster, operator):
    """Nothing is asked of the cluster as a whole but which kinds it knows, and nothing is refused."""
    since = len(api_server.audit_entries())
    cluster.apply(replicas=2, networking={"ingress": {}})
    eventually(cluster.is_ready)
    cluster.quiet(4)

    entries = api_server.audit_entries()[since:]
    assert entries
    for entry in entries:
        if entry.get("objectRef", {}).get("resource"):
            assert entry["objectRef"]["namespace"] == cluster.namespace
        else:
            assert entry["requestURI"].startswith(("/api", "/apis"))
        assert entry["responseStatus"]["code"] not in {401, 403}
    assert "orbidden" not in operator.log()


def test_a_namespace_that_is_deleted_stops_only_itself(api_server, cluster, account, tmp_path):
    """With the namespace went the operator's Role there: it is named first, and nothing of it can be read."""
    log, gone = tmp_path / "operator.log", f"--namespace={cluster.namespace}"
    with OperatorProcess(api_server, "deleted", log, gone, account=account.folder, before=QUICK) as operator:
        cluster.apply()
        eventually(cluster.is_ready, 60)
        cluster.delete("services", "simple", "v1")
        eventually(lambda: cluster.get("services", "simple", "v1"))

        assert operator.ended is None
        assert "namespace deleted is left out" in operator.log()


def test_a_token_that_rotates(cluster, account, operator):
    """The former one is not valid any more: what asks goes on with the new one, in the same process."""
    cluster.apply()
    eventually(cluster.is_ready)

    account.rotate("second")
    account.revoke("first")
    cluster.delete("services", "simple", "v1")
    eventually(lambda: cluster.get("services", "simple", "v1"), 60)
    cluster.apply("later")

    eventually(lambda: cluster.is_ready("later"), 60)
    assert operator.ended is None


def a_change(cluster):
    cluster.apply(server={"args": ["--log-verbose=1"]})


def another_service(cluster):
    cluster.apply("other")


def no_ingress(cluster):
    cluster.apply()


def nothing(cluster):
    """The operator notices by itself."""


TAKEN = [
    ("apps", "deployments", "patch", a_change, "simple"),
    ("apps", "deployments", "list", nothing, "simple"),
    ("networking.k8s.io", "ingresses", "delete", no_ingress, "simple"),
    ("", "services", "create", another_service, "other"),
    ("", "services", "get", another_service, "other"),
    ("apps", "controllerrevisions", "create", another_service, "other"),
    ("", "pods", "list", nothing, "simple"),
]
SOON = TAKEN[:3]


@pytest.mark.parametrize(
    ("group", "resource", "verb", "change", "name"),
    [pytest.param(*case, marks=() if case in SOON else pytest.mark.slow) for case in TAKEN],
)
def test_a_right_that_is_missing_and_comes_back(cluster, account, operator, group, resource, verb, change, name):  # noqa: PLR0917
    """The condition names verb and resource; nothing is needed but the right."""
    cluster.apply(networking={"ingress": {}})
    eventually(cluster.is_ready)
    account.grant(without(group, resource, verb))

    change(cluster)

    stalled = lambda: cluster.condition("Stalled", name)  # noqa: E731
    eventually(lambda: stalled().get("reason") == "ForbiddenByPolicy")
    assert f'cannot {verb} resource "{resource}"' in stalled()["message"]
    account.grant(CHART_RULES)
    if verb != "list":
        cluster.apply(name, replicas=2)
    eventually(lambda: stalled()["status"] == "False", 60)
    eventually(lambda: cluster.is_ready(name), 60)
    assert operator.ended is None


@pytest.mark.parametrize(
    "right",
    [
        ("", "events", "create"),
        pytest.param(("serving.charonia.dev", "inferenceservices/status", "patch"), marks=pytest.mark.slow),
    ],
)
def test_rights_without_which_nothing_can_be_told(cluster, account, operator, right):
    """The log says it; the pods run all the same."""
    account.grant(without(*right))
    cluster.apply()

    eventually(lambda: cluster.get("deployments")["status"].get("readyReplicas") == 1)
    eventually(lambda: f'cannot {right[2]} resource "{right[1]}"' in operator.log())

    account.grant(CHART_RULES)
    eventually(cluster.is_ready, 60)
    assert operator.ended is None


def test_the_right_without_which_nothing_can_be_done(cluster, account, operator):
    account.grant(without("serving.charonia.dev", "inferenceservices", "list"))
    cluster.apply()
    eventually(lambda: 'cannot list resource "inferenceservices"' in operator.log())

    account.grant(CHART_RULES)

    eventually(cluster.is_ready, 60)
    assert operator.ended is None
