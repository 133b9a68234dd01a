"""What Argo CD and Flux make of a status: the script that the chart ships, run, and the rules of kstatus."""

import pytest
import yaml

from charonia_operator.observation import ModelState, Observation, PodModels, Problem, RevisionPods
from charonia_operator.reasons import Reason
from charonia_operator.status.building import build_status, invalid_status
from tests.support.gitops import FOLDER, health, kstatus
from tests.support.inference_services import a_body, a_service

NOW = "2026-01-01T00:00:00Z"
READY = {"metadata": {"name": "a-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
GOOD, BAD = ModelState("a", "1", "Ready"), ModelState("a", "2", "Unavailable", "no such file")


def a_deployment(ready, replicas=1, *, updated=None, observed=1):
    updated = replicas if updated is None else updated
    counts = {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": updated}
    return {"kind": "Deployment", "metadata": {"generation": 1}, "status": {"observedGeneration": observed, **counts}}


def seen(ready, replicas=1, *, updated=None, observed=1, **others):
    """A service with its Service, and so many ready pods of the current revision."""
    return Observation(
        a_deployment(ready, replicas, updated=updated, observed=observed),
        service={"kind": "Service"},
        current=RevisionPods([READY] * ready),
        **others,
    )


def resource(observation, **spec):
    body = a_body(**spec)
    return {**body, "status": build_status(a_service(**spec), observation, {}, NOW)}


CASES = {
    "a service that nobody has seen": (a_body(), "Progressing", "InProgress"),
    "another spec than was seen": (
        {**a_body(), "status": {**resource(seen(1))["status"], "observedGeneration": 0}},
        "Progressing",
        "InProgress",
    ),
    "a new one": (resource(Observation()), "Progressing", "InProgress"),
    "pods that start": (resource(seen(0)), "Progressing", "InProgress"),
    "one that serves": (
        resource(seen(1, models={"a-1": PodModels((GOOD,))})),
        "Healthy",
        "Current",
    ),
    "a rollout": (resource(seen(1, 2, updated=1), replicas=2), "Progressing", "InProgress"),
    "a model that does not load": (
        resource(seen(1, models={"a-1": PodModels((GOOD, BAD))})),
        "Degraded",
        "Current",
    ),
    "something that is forbidden": (
        resource(seen(0, 0, problems=[Problem(Reason.FORBIDDEN, "no")])),
        "Degraded",
        "Failed",
    ),
    "a problem of one that serves": (
        resource(seen(1, problems=[Problem(Reason.NAME_CONFLICT, "no")])),
        "Degraded",
        "Failed",
    ),
    "a spec that cannot be read": (
        {**a_body(), "status": invalid_status(a_body(), "spec.replicas: no", NOW)},
        "Degraded",
        "Failed",
    ),
    "one that was fixed, and is not yet made": (
        resource(seen(1, observed=0)),
        "Progressing",
        "InProgress",
    ),
    "a suspended one": (resource(seen(0, 0), suspend=True), "Suspended", "InProgress"),
    "none wanted": (resource(seen(0, 0), replicas=0), "Suspended", "InProgress"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_gitops_tools_show(case):
    body, argo, flux = CASES[case]

    status, message = health(body)

    assert (status, kstatus(body)) == (argo, flux)
    assert message


def test_flux_waits():
    kustomization = yaml.safe_load((FOLDER / "flux.yaml").read_text())

    assert kustomization["kind"] == "Kustomization"
    assert kustomization["spec"]["wait"]
