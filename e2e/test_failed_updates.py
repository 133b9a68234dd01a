"""A service that serves is edited to what cannot work: status, Event and Argo CD tell, and the old pod serves on."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.support.models import multiplier
from e2e.support.services import Service
from e2e.support.waiting import eventually
from tests.support.gitops import health

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
_TOLD_SECONDS = 120
"""Twice what it takes at most where nothing else runs."""


@dataclass(frozen=True)
class Edit:
    """A change of the spec: the reason that is told, and words of the field and of the remedy."""

    spec: dict[str, Any]
    reason: str
    words: tuple[str, ...]


EDITS = {
    "image": Edit(
        {"server": {"image": "localhost/charonia/absent:1"}},
        "ImagePullFailed", ("localhost/charonia/absent:1", "spec.server.image"),
    ),
    "endpoint": Edit(
        {"modelRepository": {"endpoint": "http://misspelt.charonia-e2e-tools.svc:9000"}},
        "RepositoryUnreachable", ("misspelt", "correct spec.modelRepository.endpoint"),
    ),
    "prefix": Edit(
        {"modelRepository": {"uri": "s3://models/nothing-here"}},
        "RepositoryEmpty", ("nothing-here", "Check spec.modelRepository.uri"),
    ),
    "model": Edit(
        {"modelRepository": {"uri": "s3://models/broken"}},
        "SomeFailed", ("fragile version 1", "below spec.modelRepository.uri"),
    ),
    "flag": Edit(
        {"server": {"args": ["--no-such-flag=1"]}},
        "CrashLoop", ("--no-such-flag", "out of spec.server.args"),
    ),
    "command": Edit(
        {"server": {"command": ["no-such-program"]}},
        "ContainerCannotStart", ("no-such-program", "correct spec.server.command[0]"),
    ),
    "account": Edit(
        {"serviceAccountName": "nobody-made-it"},
        "ServiceAccountMissing", ("nobody-made-it", "correct spec.serviceAccountName"),
    ),
    "requirement": Edit(
        {"python": {"requirements": ["--no-index", "no-such-package-of-ours==1.0"]}},
        "PythonDependenciesFailed", ("no-such-package-of-ours==1.0", "in spec.python.requirements"),
    ),
    "gpus": Edit(
        {"gpu": {"count": 3}},
        "InsufficientGPU", ("nvidia.com/gpu", "change spec.gpu.count"),
    ),
    "secret": Edit(
        {"modelRepository": {"credentials": {"secretRef": {"name": "nobody-made-this"}}}},
        "SecretMissing", ("Create Secret nobody-made-this", "spec.modelRepository.credentials.secretRef"),
    ),
}  # fmt: skip
TRACKS = {
    "steady": ("image", "command", "endpoint"),
    "firm": ("flag", "model", "gpus"),
    "calm": ("account", "requirement", "prefix", "secret"),
}
"""Services, and the edits that each goes through, one after the other."""


@dataclass(frozen=True)
class Outcome:
    """What was there when the edit's reason was told, or its time was over."""

    seconds: float
    service: dict[str, Any]
    events: list[dict[str, Any]]
    shown: str
    pods: set[str]
    answer: list

    def condition(self, name: str) -> dict[str, Any]:
        return next(each for each in self.service["status"]["conditions"] if each["type"] == name)


def _make(service: Service, edit: Edit) -> Outcome:
    """Edit the service, and wait for the status to tell of it."""
    began = time.monotonic()
    service.apply(**edit.spec)

    def is_told() -> bool:
        live = service.live()
        conditions = {each["type"]: each for each in live["status"]["conditions"]}
        stalled = conditions["Stalled"]
        seen = stalled["observedGeneration"] == live["metadata"]["generation"]
        return bool(seen and stalled["status"] == "True" and stalled["reason"] == edit.reason)

    with contextlib.suppress(AssertionError):  # the tests say what is there instead
        eventually(is_told, _TOLD_SECONDS)
    seconds, name = time.monotonic() - began, service.name
    kubectl, events = service.cluster.kubectl, service.cluster.kubectl.list("events", service.namespace)
    return Outcome(
        seconds,
        service.live(),
        [each for each in events if each["involvedObject"]["name"] == name],
        kubectl("get", "infsvc", name, "-n", service.namespace),
        {pod["metadata"]["uid"] for pod in service.pods()},
        service.ask("http", "double", [1]),
    )


@pytest.fixture(scope="module")
def outcomes(a_service, store):
    """Of all edits, by name; and the pods that served before."""
    store.put({"broken/fragile/1/model.onnx": b"no model"})
    services = {name: a_service(name) for name in TRACKS}
    for name, service in services.items():
        store.put(multiplier("double", 2), f"{name}/")
        service.apply()
    serving = {}
    for name, service in services.items():
        service.wait_until_ready()
        (pod,) = service.pods()
        serving[name] = pod["metadata"]["uid"]

    def run(name: str) -> dict[str, tuple[str, Outcome]]:
        return {edit: (serving[name], _make(services[name], EDITS[edit])) for edit in TRACKS[name]}

    with ThreadPoolExecutor(len(TRACKS)) as threads:
        found = {edit: told for track in threads.map(run, TRACKS) for edit, told in track.items()}
    yield found
    for service in services.values():
        service.delete()


@pytest.mark.parametrize("name", EDITS)
def test_a_failed_update_is_told_while_the_old_pod_serves(outcomes, name):
    edit, (serving, outcome) = EDITS[name], outcomes[name]
    stalled, ready = outcome.condition("Stalled"), outcome.condition("Ready")

    assert (stalled["status"], stalled["reason"]) == ("True", edit.reason), outcome.service["status"]
    assert [word for word in edit.words if word not in stalled["message"]] == [], stalled["message"]
    assert (ready["status"], ready["reason"]) == ("True", "UpdateFailed")
    assert "UpdateFailed" in outcome.shown
    assert outcome.service["status"]["phase"] == "Degraded"
    told = [event for event in outcome.events if event["reason"] == edit.reason]
    assert [event["type"] for event in told] == ["Warning"]
    assert [word for word in edit.words if word not in told[0]["message"]] == [], told[0]["message"]
    shown, message = health(outcome.service)
    assert (shown, message.partition(":")[0]) == ("Degraded", edit.reason)
    assert serving in outcome.pods
    assert outcome.answer == [2]
    print(f"{name}: told after {outcome.seconds:.0f} s: {stalled['message']}")


def test_a_service_that_is_set_back_is_well_again(outcomes, a_service):
    service = a_service("steady")
    service.apply()

    service.wait_for("Stalled", "False", seconds=60)
    service.wait_for("Ready", "True", "Serving", seconds=60)
    eventually(lambda: health(service.live())[0] == "Healthy", 60, "Argo CD says that it is healthy")
    assert service.status()["phase"] == "Ready"
    assert len(outcomes) == len(EDITS)
