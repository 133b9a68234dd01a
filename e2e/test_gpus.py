"""Services that ask for GPUs, which may be names without devices."""

import pytest

from e2e.support.models import multiplier

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def gpus(cluster):
    """How many there are."""
    if cluster.gpus < 1:
        pytest.skip("no node offers nvidia.com/gpu")
    return cluster.gpus


@pytest.fixture
def with_gpus(a_service, store):
    service = a_service("with-gpus")
    store.put(multiplier("double", 2), "with-gpus/")
    yield service
    service.delete()


def test_the_shortage_of_gpus_is_named_until_it_ends(gpus, with_gpus):
    with_gpus.apply(gpu={"count": gpus + 1})

    with_gpus.wait_for("Ready", "False", "InsufficientGPU", "nvidia.com/gpu", "spec.gpu")
    with_gpus.wait_for("Stalled", "True", "InsufficientGPU")

    with_gpus.apply(gpu={"count": 1})
    with_gpus.wait_until_ready()
    assert with_gpus.ask("http", "double", [1]) == [2]
    with_gpus.wait_for("Stalled", "False")
    (pod,) = (each for each in with_gpus.pods() if each["status"]["phase"] == "Running")
    server = pod["spec"]["containers"][0]
    assert server["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert with_gpus.run("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip() not in {"", "all", "void"}
