"""Changes in the bucket reach a service that follows it, without a restart and without a failed request."""

import pytest

from e2e.support.models import multiplier
from e2e.support.object_store import BUCKET
from e2e.support.services import CHANGE_SECONDS
from e2e.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


SPEC = {
    "modelRepository": {"sync": {"mode": "Poll", "intervalSeconds": 10}},
    "drain": {"preStopDelaySeconds": 5, "terminationGracePeriodSeconds": 20},
}


@pytest.fixture(scope="module")
def hot(a_service, store):
    """A service that follows its folder, with a model for each test."""
    service = a_service("hot")
    for model in ("double", "half", "fragile"):
        store.put(multiplier(model, 2), "hot/")
    service.apply(**SPEC)
    service.wait_until_ready()
    yield service
    service.delete()


def serves(service, model, answer):
    """Until the model answers 1 with this."""
    eventually(lambda: service.ask("http", model, [1]) == [answer], CHANGE_SECONDS, f"{model} answers {answer}")


def test_a_new_version_is_served_without_one_failed_request(hot, store, client):
    pods = [pod["metadata"]["uid"] for pod in hot.pods()]
    with (
        client.load("http", hot.address(8000), "double", [1.0]) as by_http,
        client.load("grpc", hot.address(8001), "double", [1.0]) as by_grpc,
    ):
        store.put(multiplier("double", 3, version=2), "hot/")
        serves(hot, "double", 3)

    assert by_http.failures == []
    assert by_grpc.failures == []
    assert by_http.answers.keys() == by_grpc.answers.keys() == {"[2.0]", "[3.0]"}
    assert sum(by_http.answers.values()) > 100
    assert [pod["metadata"]["uid"] for pod in hot.pods()] == pods
    assert hot.pods()[0]["status"]["containerStatuses"][0]["restartCount"] == 0


def test_what_is_not_whole_is_not_loaded_and_what_is_broken_is_told(hot, store):
    ((path, model),) = multiplier("half", 3, version=2).items()
    upload = store.put_half(f"hot/{path}", model)
    store.put({"fragile/2/model.onnx": b"no model"}, "hot/")

    # A pass that has seen the one has seen the other.
    hot.wait_for("ModelsReady", "False", "SomeFailed", "fragile")
    assert hot.ask("http", "half", [1]) == [2]
    assert hot.ask("grpc", "fragile", [1]) == [2]
    assert hot.condition("Ready")["status"] == "True"
    status = hot.status()
    assert status["phase"] == "Degraded"
    (told,) = (each for each in status["models"] if each["state"] == "Unavailable")
    assert (told["name"], told["version"]) == ("fragile", "2")
    assert told["reason"]

    store.finish(f"hot/{path}", upload)
    store.put(multiplier("fragile", 3, version=2), "hot/")
    serves(hot, "half", 3)
    serves(hot, "fragile", 3)
    hot.wait_for("ModelsReady", "True")


def test_pods_are_replaced_without_one_failed_request(hot, client):
    (before,) = hot.pods()
    with (
        client.load("http", hot.address(8000), "half", [0.0]) as by_http,
        client.load("grpc", hot.address(8001), "half", [0.0]) as by_grpc,
    ):
        hot.apply(**SPEC, server={"logging": {"verbose": 1}})
        eventually(lambda: _is_the_only_one(hot, before), CHANGE_SECONDS, "another pod serves")

    assert by_http.failures == []
    assert by_grpc.failures == []
    assert sum(by_http.answers.values()) > 100
    assert sum(by_grpc.answers.values()) > 100


def _is_the_only_one(service, before):
    """Whether another pod than `before` is ready, and `before` is gone."""
    pods = service.children("pods")
    uids = [pod["metadata"]["uid"] for pod in pods]
    return len(uids) == 1 and before["metadata"]["uid"] not in uids and service.status().get("readyReplicas") == 1


def test_a_pod_whose_only_model_is_broken_replaces_none_of_a_mirrored_image(a_service, cluster, store, client):
    """An image of one's own keeps the flags that keep a service safe."""
    mirrored = a_service("mirrored")
    store.put(multiplier("double", 2), "mirrored/")
    store.put({"mirrored-broken/double/1/model.onnx": b"no model"}, "")
    server = {"image": cluster.images.runtime}
    mirrored.apply(**SPEC, server=server)
    mirrored.wait_until_ready()
    (before,) = mirrored.pods()
    try:
        with client.load("http", mirrored.address(8000), "double", [1.0]) as by_http:
            repository = SPEC["modelRepository"] | {"uri": f"s3://{BUCKET}/mirrored-broken"}
            mirrored.apply(**SPEC | {"modelRepository": repository}, server=server)
            eventually(lambda: "double" in _told(mirrored), CHANGE_SECONDS, "the status names the broken model")

        assert by_http.failures == []
        assert sum(by_http.answers.values()) > 100
        assert before["metadata"]["uid"] in [pod["metadata"]["uid"] for pod in mirrored.pods()]
        assert mirrored.condition("Ready")["status"] == "True"
    finally:
        mirrored.delete()


def _told(service):
    """Messages of the conditions that are not as they should be."""
    conditions = service.status().get("conditions", [])
    return " ".join(each["message"] for each in conditions if each["status"] != "True" or each["type"] == "Stalled")
