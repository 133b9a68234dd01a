"""What a user got wrong is named in the status, in the words of a real kubelet."""

import pytest

from e2e.conftest import SERVICES
from e2e.support.models import multiplier
from e2e.support.object_store import KEY_ID, KEY_SECRET

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def a_secret(name, key_secret=KEY_SECRET):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SERVICES},
        "stringData": {"accessKeyId": KEY_ID, "accessKeySecret": key_secret},
    }


@pytest.fixture(scope="module")
def mistaken(a_service, store, cluster):
    """Services by what is wrong with them: all are made at once, since each takes its time to fail."""
    cluster.kubectl.apply(a_secret("wrong", key_secret="not-the-secret"))
    specs = {
        "secretless": {"modelRepository": {"credentials": {"secretRef": {"name": "later"}}}},
        "denied": {"modelRepository": {"credentials": {"secretRef": {"name": "wrong"}}}},
        "empty": {},
        "imageless": {"server": {"image": "localhost/charonia/absent:1"}},
        "uninstallable": {"python": {"requirements": ["--no-index", "no-such-package-of-ours==1.0"]}},
    }
    services = {name: a_service(name) for name in specs}
    for name, service in services.items():
        if name != "empty":
            store.put(multiplier("double", 2), f"{name}/")
        service.apply(**specs[name])
    yield services
    for service in services.values():
        service.delete()


def test_a_secret_that_is_missing_is_named_and_may_come_later(mistaken, cluster):
    service = mistaken["secretless"]
    service.wait_for("Ready", "False", "SecretMissing", "later")

    cluster.kubectl.apply(a_secret("later"))

    service.wait_until_ready()
    assert service.ask("http", "double", [1]) == [2]


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("denied", "RepositoryDenied", "spec.modelRepository.credentials"),
        ("empty", "RepositoryEmpty", "'empty/' in the bucket 'models'"),
        ("imageless", "ImagePullFailed", "localhost/charonia/absent:1"),
        ("uninstallable", "PythonDependenciesFailed", "no-such-package-of-ours"),
    ],
)
def test_a_mistake_has_its_own_reason(mistaken, name, reason, words):
    mistaken[name].wait_for("Ready", "False", reason, words)
    mistaken[name].wait_for("Stalled", "True", reason)
