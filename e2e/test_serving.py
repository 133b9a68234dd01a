"""From nine lines of YAML and a bucket to answers."""

import json

import pytest

from e2e.support.models import PACKAGE, shouter

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def python(a_service, store):
    """A service of a Python model with requirements of its own and shared memory."""
    service = a_service("python")
    store.put(shouter("shouter"), "python/")
    assert PACKAGE.startswith("shouting-1.0")
    service.apply(
        python={"requirements": ["--no-index", "--find-links=/models/shouter", "shouting==1.0"]},
        sharedMemory={"size": "96Mi"},
    )
    yield service
    service.delete()


def test_nine_lines_and_a_bucket_are_served(simple):
    assert simple.wait_for("ModelsReady", "True")["reason"] == "AllReady"
    status = simple.status()
    assert (status["phase"], status["modelsReady"], status["readyReplicas"]) == ("Ready", "1/1", 1)
    assert status["observedGeneration"] == simple.live()["metadata"]["generation"]
    assert simple.condition("RepositorySynced")["status"] == "True"
    assert status["modelRevision"]["current"].startswith("sha256:")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_this_machine_gets_right_answers(simple, protocol):
    assert simple.ask(protocol, "double", [1.5, -3.0]) == [3.0, -6.0]


@pytest.mark.parametrize(("protocol", "port"), [("http", 8000), ("grpc", 8001)])
def test_another_pod_gets_right_answers_by_the_services_name(simple, client, protocol, port):
    assert client.ask(protocol, simple.address(port), "double", [1.5, -3.0]) == [3.0, -6.0]


def test_a_python_model_has_the_packages_that_it_requires(python):
    python.wait_until_ready()

    assert python.ask("http", "shouter", ["quiet"]) == ["QUIET"]
    assert python.ask("grpc", "shouter", ["quiet", "please"]) == ["QUIET", "PLEASE"]


@pytest.mark.parametrize(("protocol", "port"), [("http", 8000), ("grpc", 8001)])
def test_another_pod_is_answered_by_a_python_model(python, client, protocol, port):
    python.wait_until_ready()

    assert client.ask(protocol, python.address(port), "shouter", ["quiet", "please"]) == ["QUIET", "PLEASE"]


def test_shared_memory_has_the_size_that_was_asked_for(python):
    python.wait_until_ready()

    told = json.loads(
        python.run("python3", "-c", "import json, shutil; print(json.dumps(shutil.disk_usage('/dev/shm')))")
    )

    assert told[0] == 96 << 20
