"""Who may ask a service that wants a token."""

import pytest
from tritonclient.utils import InferenceServerException

from e2e.conftest import SERVICES
from e2e.support.models import multiplier
from e2e.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ROTATION_SECONDS = 240  # the kubelet brings a changed Secret to a pod within a minute or two
REFUSALS = {"http": "401", "grpc": "UNAUTHENTICATED"}
protocols = pytest.mark.parametrize("protocol", ["http", "grpc"])


@pytest.fixture(scope="module")
def guarded(a_service, store, cluster):
    """A service with two Secrets of tokens."""
    service = a_service("guarded")
    store.put(multiplier("double", 2), "guarded/")
    _set_token(cluster, "tokens-a", "first")
    _set_token(cluster, "tokens-b", "other")
    service.apply(access={"type": "Token", "tokenSecretRefs": [{"name": "tokens-a"}, {"name": "tokens-b"}]})
    service.wait_until_ready()
    yield service
    service.delete()


def _set_token(cluster, name, token):
    metadata = {"name": name, "namespace": SERVICES}
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": token}})


def ask(service, protocol, authorization):
    headers = {"authorization": authorization} if authorization else {}
    return service.ask(protocol, "double", [2], headers)


def refuses(service, protocol, authorization):
    with pytest.raises(InferenceServerException) as refusal:
        ask(service, protocol, authorization)
    return REFUSALS[protocol] in str(refusal.value)


@protocols
def test_without_a_valid_token_nobody_is_answered(guarded, protocol):
    for shown in ("", "wrong", "Bearer wrong"):
        assert refuses(guarded, protocol, shown)


@protocols
def test_a_token_is_taken_as_it_is_and_after_bearer(guarded, protocol):
    for shown in ("first", "Bearer first", "Bearer other"):
        assert ask(guarded, protocol, shown) == [4]


def test_the_operator_needs_no_token_to_see_that_it_is_ready(guarded):
    assert guarded.condition("Ready")["status"] == "True"
    guarded.wait_for("ModelsReady", "True")


def test_a_token_is_replaced_without_a_restart(guarded, cluster):
    (before,) = guarded.pods()
    _set_token(cluster, "tokens-a", "second")

    eventually(lambda: ask(guarded, "http", "Bearer second") == [4], ROTATION_SECONDS, "the new token is taken")

    for protocol in REFUSALS:
        assert ask(guarded, protocol, "Bearer second") == [4]
        assert ask(guarded, protocol, "Bearer other") == [4]
        assert refuses(guarded, protocol, "Bearer first")
    (after,) = guarded.pods()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
