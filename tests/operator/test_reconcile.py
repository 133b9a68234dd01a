"""Passes over a cluster in memory: what is there and what is asked for, to what is written and told."""

import dataclasses

import pytest

from charonia_operator.allowance import Allowance
from charonia_operator.cluster import ClusterError
from charonia_operator.diagnosis import reason_of
from charonia_operator.models import Target
from charonia_operator.naming import INFERENCE_SERVICE
from charonia_operator.observation import CopyProgress, CopyState, ModelState, PodModels
from charonia_operator.resources import deployment
from tests.support.fake_cluster import FakeCluster
from tests.support.inference_services import SETTINGS, a_body
from tests.support.operator_world import KEY, STATUS, World, failed, serving


def test_a_new_service_gets_its_children():
    world = World().ask()

    written = world.go()

    assert [(verb, kind) for verb, kind, _ in written] == [
        ("apply", "ControllerRevision"),
        ("apply", "Deployment"),
        ("apply", "Service"),
        ("status", "InferenceService"),
    ]


def test_a_converged_service_gets_nothing():
    world = World().ask(resources={"requests": {"cpu": "1000m"}}, replicas=2)
    world.go()
    world.go()

    assert world.go() == []


def test_a_second_operator_writes_nothing_and_keeps_what_pods_told():
    models = PodModels((ModelState("a", "1", "Ready"),))
    world = World(answer=models).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.go()
    assert world.status["modelsReady"] == "1/1"

    other = World(cluster=world.cluster, answer=models)
    other.reconciler.models._pool = Never()

    assert other.go() == []


class Never:
    def submit(self, function, *arguments):
        pass


def test_an_upgrade_changes_no_template():
    world = World().ask()
    world.go()
    newer = dataclasses.replace(SETTINGS, runtime_image="example.com/runtime:2")
    upgraded = World(newer, world.cluster)

    assert upgraded.go() == [("status", "InferenceService", "simple")]
    assert (upgraded.status["image"], upgraded.status["newerImage"]) == (
        "example.com/runtime:1",
        "example.com/runtime:2",
    )
    assert upgraded.go() == []
    assert [write for write in World(newer, world.cluster).ask(replicas=3).go() if write[1] != "InferenceService"] == [
        ("apply", "Deployment", "simple"),
        ("apply", "PodDisruptionBudget", "simple"),
    ]
    template = world.cluster.named("Deployment")["spec"]["template"]["spec"]
    assert template["containers"][0]["image"] == "example.com/runtime:1"


def test_a_restart_takes_the_newer_image():
    world = World().ask()
    world.go()
    newer = dataclasses.replace(SETTINGS, runtime_image="example.com/runtime:2")
    upgraded = World(newer, world.cluster)
    before = upgraded.cluster.named("Deployment")["spec"]["template"]["metadata"]["labels"]

    upgraded.ask(restart="2026-01-01").go()

    template = upgraded.cluster.named("Deployment")["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == upgraded.status["image"] == "example.com/runtime:2"
    assert template["metadata"]["labels"] != before, "pods are replaced where no image is newer, too"
    assert "newerImage" not in upgraded.status


@pytest.mark.parametrize(
    "template",
    [
        *({"spec": {"containers": containers}} for containers in (1, "a", [1], [{"image": "a"}], {"server": 1})),
        *({"spec": {"volumes": volumes}} for volumes in (1, [1])),
        {"spec": None},
        {"metadata": None},
        {"metadata": {"labels": None}},
    ],
)
def test_a_pod_template_that_only_the_api_server_can_judge(template):
    """It is handed on, and no fault of the operator."""
    world = World().ask(podTemplate=template)

    world.go()

    assert world.status["observedGeneration"] == 1
    assert world.status.get("image", "example.com/runtime:1") == "example.com/runtime:1"


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"metadata": 1}, "podTemplate.metadata"),
        ({"metadata": {"labels": ["a"]}}, "podTemplate.metadata.labels"),
        ({"metadata": {"annotations": "a"}}, "podTemplate.metadata.annotations"),
        ({"spec": [1]}, "podTemplate.spec"),
    ],
)
def test_a_pod_template_that_is_no_map(template, field):
    world = World().ask(podTemplate=template)
    world.go()

    assert world.condition("Stalled")["reason"] == "SpecInvalid"
    assert f"{field} must be a mapping" in world.condition("Stalled")["message"]


def test_an_image_of_the_users_own_is_never_outdated():
    world = World().ask(server={"image": "example.com/mine:1"})
    world.go()
    newer = dataclasses.replace(SETTINGS, runtime_image="example.com/runtime:2")
    upgraded = World(newer, world.cluster)
    upgraded.go()

    assert upgraded.status["image"] == "example.com/mine:1"
    assert "newerImage" not in upgraded.status


@pytest.mark.parametrize(("uri", "claims"), [("s3://bucket/models", ["simple-models"]), ("pvc://claim/models", [])])
def test_a_claim_that_nobody_mounts_is_not_made(uri, claims):
    cache = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"size": "1Gi"}}
    world = World().ask(modelRepository={"uri": uri, "cache": cache})
    world.go()

    assert [name for kind, _, name in world.cluster.objects if kind == "PersistentVolumeClaim"] == claims


def test_a_changed_spec_gets_a_new_template_and_the_old_one_goes():
    world = World().ask()
    world.go()
    old = next(name for kind, _, name in world.cluster.objects if kind == "ControllerRevision")

    writes = world.ask(server={"args": ["--log-verbose=1"]}).go()

    assert ("delete", "ControllerRevision", old) in writes
    assert ("apply", "Deployment", "simple") in writes


@pytest.mark.parametrize(
    ("before", "after", "pruned"),
    [
        ({"networking": {"ingress": {}}}, {}, {"Ingress"}),
        ({"replicas": 2}, {"replicas": 1}, {"PodDisruptionBudget"}),
        ({"replicas": 2}, {"replicas": 2, "disruption": {"mode": "Disabled"}}, {"PodDisruptionBudget"}),
        (
            {"autoscaling": {"maxReplicas": 2, "metrics": [{"type": "CPU", "target": 1}]}},
            {},
            {"HorizontalPodAutoscaler"},
        ),
        ({"networking": {"gateway": {"parentRefs": [{"name": "a"}]}}}, {}, {"HTTPRoute"}),
    ],
)
def test_pruning(before, after, pruned):
    world = World().ask(**before)
    world.go()

    writes = world.ask(**after).go()

    assert {kind for verb, kind, _ in writes if verb == "delete"} - {"ControllerRevision"} == pruned


def test_a_foreign_object_is_left_alone():
    world = World().ask()
    world.cluster.add({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "simple"}, "spec": {}})

    writes = world.go()

    assert ("apply", "Service", "simple") not in writes
    assert world.condition("Stalled")["reason"] == "NameConflict"
    assert world.cluster.events == [("Warning", "NameConflict")]
    assert world.go() == []


def test_children_of_a_restored_service_are_taken_over():
    """A backup brings the service back under another uid: its pods stay."""
    world = World().ask()
    world.go()
    body = a_body()
    body["metadata"]["uid"] = "another"
    world.cluster.add(body)

    world.go()

    references = world.cluster.named("Deployment")["metadata"]["ownerReferences"]
    assert [each["uid"] for each in references] == ["another"]


@pytest.mark.parametrize("status", [0, 401, 409, 429, 500, 503])
@pytest.mark.parametrize(
    ("verb", "kind"),
    [("apply", "Deployment"), ("apply", "Service"), ("status", "InferenceService")],
)
def test_passing_refusals_are_tried_again(status, verb, kind):
    world = World().ask()
    world.cluster.refuse[verb, kind] = ClusterError(status, "Reason", "text")

    with pytest.raises(ClusterError):
        world.go()
    world.cluster.refuse.clear()
    world.go()

    assert world.cluster.named("Service")["spec"]
    assert world.status["observedGeneration"] == 1


@pytest.mark.parametrize("status", [0, 429, 503])
def test_a_child_comes_back_only_when_its_service_is_known_to_be_there(status):
    world = World().ask()
    world.go()
    del world.cluster.objects["Service", *KEY]
    world.cluster.refuse["has", "InferenceService"] = ClusterError(status, "Reason", "text")

    with pytest.raises(ClusterError):
        world.go()
    world.cluster.refuse.clear()
    world.go()

    assert world.cluster.named("Service")["spec"]


def test_a_new_service_is_made_in_one_request_for_each_child():
    """The name of each may be taken; nothing is read before."""
    world = World().ask()
    for verb in ("get", "has", "list"):
        world.cluster.refuse[verb, "Service"] = world.cluster.refuse["has", "InferenceService"] = ClusterError(
            500, "", ""
        )
    world.store.put(INFERENCE_SERVICE, world.cluster.named("InferenceService"))

    world.reconciler.reconcile(KEY)

    assert world.cluster.named("Service")["spec"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ClusterError(403, "Forbidden", "cannot patch deployments"), "ForbiddenByPolicy"),
        (ClusterError(422, "Invalid", "spec.template: no"), "SpecInvalid"),
        (ClusterError(418, "Teapot", "no"), "Teapot"),
    ],
)
def test_lasting_refusals_are_told(error, reason):
    world = World().ask()
    world.cluster.refuse["apply", "Deployment"] = error

    world.go()

    assert world.condition("Stalled")["reason"] == reason
    assert str(error) in world.condition("Stalled")["message"]
    assert world.cluster.named("Service"), "the others are made"
    assert world.after == 60.0


def test_a_lasting_refusal_costs_one_request_a_minute():
    """Nothing but the refused write is tried again, and nothing is told twice."""
    world = World().ask()
    world.cluster.refuse["apply", "Deployment"] = ClusterError(422, "Invalid", "spec.template: no")
    world.go()

    for _ in range(5):
        assert world.go() == []
        assert world.after == 60.0
    assert world.cluster.events == [("Warning", "SpecInvalid")]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("Invalid", "RepositoryInvalid"), ("Denied", "RepositoryDenied"), ("SecretMissing", "SecretMissing"),
        ("NotFound", "RepositoryNotFound"), ("Empty", "RepositoryEmpty"), ("Unreachable", "RepositoryUnreachable"),
        ("Drift", "RepositoryChanging"), ("Churning", "RepositoryChanging"), ("IntegrityFailed", "IntegrityFailed"),
        ("LayoutInvalid", "LayoutInvalid"), ("RevisionMismatch", "RevisionMismatch"), ("DiskTooSmall", "DiskTooSmall"),
        ("DiskFailed", "DiskFailed"), ("another", "SyncFailed"),
    ],
)  # fmt: skip
def test_the_reason_of_each_cause_of_a_failed_copy(cause, reason):
    assert reason_of(cause) == reason


def test_only_what_is_the_services_own_and_not_going_already_is_pruned():
    world = World().ask(networking={"ingress": {}})
    world.go()
    ingress = world.cluster.named("Ingress")
    reference = {**ingress["metadata"]["ownerReferences"][0], "uid": "of-another"}
    for change in ({"deletionTimestamp": "now"}, {"ownerReferences": [reference]}):
        world.cluster.add({**ingress, "metadata": {**ingress["metadata"], **change}})
        world.ask()
        assert ("delete", "Ingress", "simple") not in world.go()


def test_a_deletion_that_is_refused():
    world = World().ask(networking={"ingress": {}})
    world.go()
    world.cluster.refuse["delete", "Ingress"] = ClusterError(403, "Forbidden", 'cannot delete resource "ingresses"')

    world.ask().go()

    assert world.condition("Stalled")["reason"] == "ForbiddenByPolicy"
    assert 'cannot delete resource "ingresses"' in world.condition("Stalled")["message"]


def test_a_kind_that_may_not_be_listed():
    """Its objects are found by their names; the condition says what is amiss."""
    world = World().ask()
    world.go()
    other = World(cluster=world.cluster)
    other.cluster.fill(other.store)
    other.store.forbidden = {(deployment.RESOURCE, ""): 'cannot list resource "deployments"'}
    other.store.replace(deployment.RESOURCE, [], other.store.mark())

    other.reconciler.reconcile(KEY)

    assert [write for write in world.cluster.writes if write[0] != "status"][-1][1] != "Deployment"
    assert world.condition("Stalled")["reason"] == "ForbiddenByPolicy"
    assert 'cannot list resource "deployments"' in world.condition("Stalled")["message"]


@pytest.mark.parametrize("error", [ClusterError(403, "Forbidden", "cannot list events"), None])
def test_events_that_may_not_be_read_or_written(error):
    """The status is written all the same."""
    world = World().ask()
    world.go()
    waiting = [{"name": "server", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    world.run_pods(0, replicas=1).add_pod(containerStatuses=waiting)
    world.cluster.pod_events = [{"reason": "FailedMount", "message": 'secret "a" not found'}]
    if error:
        world.cluster.refuse.update({("events", "Pod"): error, ("event", "InferenceService"): error})

    world.go()

    assert world.condition("Ready")["reason"] == ("Starting" if error else "SecretMissing")


@pytest.mark.parametrize(
    ("begun", "asked", "after"),
    [
        ("2026-01-01T00:00:00Z", False, 5.0),  # volumes take a moment
        ("2025-12-31T23:59:30Z", True, 5.0),
        ("2025-12-31T23:00:00Z", True, 30.0),
    ],
)
def test_events_are_read_of_pods_that_do_not_start(begun, asked, after):
    """Only of them: each look is a request."""
    world = World().ask()
    world.go()
    waiting = [{"name": "server", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    world.run_pods(0, replicas=1).add_pod(containerStatuses=waiting, startTime=begun)
    world.cluster.refuse["events", "Pod"] = ClusterError(503, "Reason", "nobody may ask")

    if asked:
        with pytest.raises(ClusterError):
            world.go()
        world.cluster.refuse.clear()
    world.go()

    assert world.after == after


def test_a_service_that_flaps_fills_no_store_with_events():
    world = World().ask()
    world.go()
    world.go()
    told = [write for _ in range(12) for up in (True, False) for write in a_flap(world, up=up)]

    assert 0 < len(world.cluster.events) <= 10
    assert len(world.cluster.events) + len(told) <= 11, "ten at once, and what makes the time go on is nobody's here"
    assert world.after is not None
    assert world.after <= 60.0, "it is told later"


def a_flap(world, *, up):
    """What is written when a pod becomes ready, or ceases to be."""
    status = serving() if up else {**serving(), "conditions": []}
    return [write for write in world.run_pods(int(up)).add_pod(**status).go() if write[0] == "status"]


def test_children_of_a_service_that_is_gone_are_not_brought_back():
    """No watch told of its deletion; the garbage collector takes its children away, which is seen."""
    world = World().ask()
    world.go()
    world.cluster.fill(world.store)
    del world.cluster.objects["InferenceService", "default", "simple"]
    gone = world.cluster.objects.pop(("Deployment", "default", "simple"))
    world.store.remove(deployment.RESOURCE, gone)
    world.cluster.writes.clear()

    assert world.reconciler.reconcile(KEY) is None
    assert world.cluster.writes == []
    assert world.store.services() == []


def test_a_namespace_that_goes():
    """Nothing is said of it: all of this goes, too."""
    world = World().ask()
    world.cluster.refuse["apply", "Deployment"] = ClusterError(403, "Forbidden", "namespace a is being terminated")

    world.go()

    assert world.condition("Stalled")["status"] == "False"


def test_a_cluster_without_gateways():
    world = World().ask(networking={"gateway": {"parentRefs": [{"name": "a"}]}})
    world.cluster.refuse["apply", "HTTPRoute"] = ClusterError(404, "NotFound", "no such kind")

    world.go()

    assert world.condition("RouteReady")["reason"] == "CRDMissing"


def test_a_spec_that_cannot_be_read():
    """Children stay as they are; the condition names the path."""
    world = World().ask()
    world.go()

    writes = world.ask(replicas="many").go()

    assert writes == [("status", "InferenceService", "simple")]
    assert "spec.replicas" in world.condition("Stalled")["message"]
    assert world.status["phase"] == "Failed"


@pytest.mark.parametrize("gone", [True, False])
def test_a_deleted_service(gone):
    world = World()
    if not gone:
        world.ask()
        world.cluster.named("InferenceService")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert world.go() == []


PODS = {
    "InsufficientGPU": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: 2 Insufficient nvidia.com/gpu."}]},
    "Unschedulable": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: 2 Insufficient cpu."}]},
    "ImagePullFailed": failed("server", "", waiting="ImagePullBackOff"),
    "CrashLoop": failed("server", "Bad option"),
    "OutOfMemory": failed("server", "", reason="OOMKilled"),
    "PythonDependenciesFailed": failed("python-packages", "No matching distribution found for torch==2.0.1"),
    "RepositoryDenied": failed("model-sync", '{"reason": "Denied", "message": "403 for bucket a, key AKIA****"}'),
    "RepositoryEmpty": failed("model-sync", '{"reason": "Empty", "message": "nothing at a/"}'),
    "DiskTooSmall": failed("model-sync", '{"reason": "DiskTooSmall", "message": "need 2, have 1"}'),
    "IntegrityFailed": failed("model-sync", '{"reason": "IntegrityFailed", "message": "a/1/model.onnx"}'),
    "SyncFailed": failed("model-sync", "Segmentation fault"),
    "SecretMissing": {"initContainerStatuses": [{"name": "model-sync", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "a" not found'}}}]},
    "Evicted": {"phase": "Failed", "reason": "Evicted", "message": "low on ephemeral-storage"},
}  # fmt: skip


@pytest.mark.parametrize("reason", PODS)
def test_what_ails_a_pod_is_told(reason):
    world = World().ask()
    world.go()
    world.run_pods(0, replicas=1, updatedReplicas=1).add_pod(**PODS[reason])

    world.go()

    assert world.condition("Ready")["reason"] == reason
    assert "simple-1" in world.condition("Ready")["message"]
    assert world.status["lastFailure"]["reason"] == reason
    assert world.condition("Stalled")["status"] == ("False" if reason == "SyncFailed" else "True")
    if "model-sync" in str(PODS[reason]) and reason != "SecretMissing":
        assert world.condition("RepositorySynced")["reason"] == reason
    assert world.go() == []


@pytest.mark.parametrize(
    ("container", "running"),
    [
        ("model-sync", {"ready": False, "started": True}),
        ("python-packages", {"ready": False, "started": True}),
        ("server", {"ready": False, "started": False}),
    ],
)
def test_a_failure_lasts_while_the_container_tries_again(container, running):
    """Each try would be news otherwise, and its request's number as well."""
    told = '{"reason": "Denied", "message": "403 for bucket a (AccessDenied; key AKIA****; request NUMBER)"}'
    world = World().ask()
    world.go()
    world.run_pods(0, replicas=1)
    pod = failed(container, told.replace("NUMBER", "17A9"))
    (statuses,) = pod.values()
    world.add_pod(**pod).go()
    before, events = world.status, list(world.cluster.events)
    assert world.condition("Stalled")["status"] == "True"

    statuses[0]["state"] = {"running": {}}
    world.add_pod(**{**pod, next(iter(pod)): [{**statuses[0], **running}]}).go()
    assert world.status == before
    pod = failed(container, told.replace("NUMBER", "22C4"))
    world.add_pod(**pod).go()

    assert world.status == before
    assert world.cluster.events == events


def test_a_container_that_has_come_further_has_not_failed():
    world = World().ask()
    world.go()
    ended = {"lastState": {"terminated": {"exitCode": 1, "message": "no"}}}
    well = serving()
    well["initContainerStatuses"][0] |= ended | {"ready": True}
    well["containerStatuses"][0] |= ended | {"ready": True}

    world.run_pods().add_pod(**well).go()

    assert world.condition("Stalled")["status"] == "False"
    assert "lastFailure" not in world.status


NOT_FOUND = 'exec: "nope": executable file not found in $PATH'
IN_FULL = (
    f"failed to create containerd task: runc create failed: unable to start container process: {NOT_FOUND}: unknown"
)


def test_a_command_that_cannot_start_is_one_failure_at_each_try():
    """The kubelet shows it in three ways, one after the other."""
    world = World().ask(server={"command": ["nope"]})
    world.go()
    ended = {"exitCode": 128, "reason": "StartError", "message": IN_FULL}
    looks = [
        {"state": {"waiting": {"reason": "RunContainerError", "message": IN_FULL}}},
        {"state": {"terminated": ended}},
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}},
    ]
    written = []
    for _ in range(3):
        for look in looks:
            world.run_pods(0, replicas=1, updatedReplicas=1)
            world.add_pod(containerStatuses=[{"name": "server", **look}])
            written.append([write for write in world.go() if write[0] == "status"])

    assert world.condition("Stalled")["reason"] == "ContainerCannotStart"
    assert "spec.server.command[0]" in world.condition("Stalled")["message"]
    assert world.cluster.events == [("Warning", "ContainerCannotStart")]
    assert written[1:] == [[]] * 8


def test_an_image_that_does_not_come_is_one_failure_at_each_try():
    world = World().ask(server={"image": "a/b:1"})
    world.go()
    answer = "rpc error: code = NotFound desc = a/b:1: not found"
    looks = [
        {"reason": "ErrImagePull", "message": answer},
        {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "a/b:1": ErrImagePull: {answer}'},
    ]
    written = []
    for look in looks * 3:
        world.run_pods(0, replicas=1, updatedReplicas=1)
        world.add_pod(containerStatuses=[{"name": "server", "image": "a/b:1", "state": {"waiting": look}}])
        written.append([write for write in world.go() if write[0] == "status"])

    assert written[1:] == [[]] * 5
    assert world.cluster.events == [("Warning", "ImagePullFailed")]


def test_a_service_that_fails_in_turns_writes_little():
    """Each try fails otherwise: ten writes at once, two a minute from then on, and the spec's author begins anew."""
    clock = [0.0]
    world = World()
    world.reconciler = dataclasses.replace(world.reconciler, telling=Allowance(lambda: clock[0]))
    world.ask().go()
    ways = [PODS["CrashLoop"], PODS["OutOfMemory"], PODS["PythonDependenciesFailed"]]

    def writes(seconds):
        before, found = len(world.cluster.events), 0
        for second in range(seconds):
            clock[0] += 1.0
            world.run_pods(0, replicas=1).add_pod(**ways[second % 3])
            found += sum(write[0] == "status" for write in world.go())
        return found + len(world.cluster.events) - before

    assert writes(60) <= 12
    assert writes(120) <= 4
    world.ask()
    assert writes(3) >= 4


def test_what_is_too_long_of_an_event_is_cut_at_its_end():
    """What to do stands before the rest of the words."""
    world = World().ask()
    world.go()
    log = "\n".join([*(f"line {number} of a long log" for number in range(80)), "charonia: unrecognized option '--no'"])
    world.run_pods(0, replicas=1, updatedReplicas=1).add_pod(**failed("server", log)).go()

    (message,) = world.cluster.messages
    assert message.startswith("Pod simple-1: charonia: unrecognized option '--no'. Take --no out of spec.server.args")
    assert len(message) == 1000
    assert message.endswith("…")
    assert "line 79 of a long log" in world.condition("Stalled")["message"]


def test_a_secret_that_is_missing_and_comes():
    """The pod's state says only that it waits; the cluster's events say for what."""
    world = World().ask()
    world.go()
    waiting = [{"name": "model-sync", "state": {"waiting": {"reason": "PodInitializing"}}}]
    world.run_pods(0, replicas=1, updatedReplicas=1).add_pod(initContainerStatuses=waiting)
    text = 'MountVolume.SetUp failed for volume "credentials" : secret "oss" not found'
    world.cluster.pod_events = [{"reason": "FailedMount", "message": text}]

    world.go()
    assert world.condition("Stalled")["reason"] == "SecretMissing"
    assert 'secret "oss" not found' in world.condition("Ready")["message"]

    world.cluster.pod_events = []
    world.run_pods().add_pod(**serving())
    world.go()
    assert world.condition("Ready")["status"] == "True"
    assert world.condition("Stalled")["status"] == "False"
    assert world.cluster.events == [("Warning", "SecretMissing"), ("Normal", "Serving")]


def test_a_service_that_serves():
    models = PodModels((ModelState("a", "1", "Ready"), ModelState("b", "2", "Ready")))
    world = World(answer=models).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.go()

    assert world.condition("Ready")["status"] == "True"
    assert world.condition("ModelsReady")["status"] == "True"
    assert world.status["phase"] == "Ready"
    assert world.status["modelRevision"] == {"current": "sha256:ab", "objects": 3}
    assert world.status["models"][0] == {"name": "a", "version": "1", "state": "Ready", "pods": 1}
    assert world.asked == [KEY]
    assert world.after == SETTINGS.model_poll_seconds


@pytest.mark.parametrize(
    ("spec", "port", "beside"),
    [({}, 8000, False), ({"access": {"type": "Token", "tokenSecretRefs": [{"name": "a"}]}}, 8002, True)],
)
def test_where_pods_are_asked_for_their_models(spec, port, beside):
    """Where clients need a token, on the port that needs none: the operator reads no Secret."""
    world = World().ask(**spec)
    world.go()
    world.run_pods().add_pod(**serving())
    asked = []
    world.reconciler.models._ask = lambda target: asked.append(target) or PodModels()

    world.go()

    assert asked == [Target("simple-1", "10.0.0.1", port, beside, is_ready=True)]


def copying(name="model-sync"):
    state = {"name": name, "started": True, "state": {"running": {}}}
    return {"podIP": "10.0.0.1", "initContainerStatuses": [state]}


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (CopyProgress("Downloading", 80 << 30, 20 << 30), "simple-1: 20.0 GiB of 80.0 GiB (25 %)."),
        (CopyProgress("Downloading", 1000, 999), "simple-1: 999 B of 1000 B (99 %)."),
        (CopyProgress("Downloading", 3 << 20, 1024), "simple-1: 1.0 KiB of 3.0 MiB (0 %)."),
        (CopyProgress("Downloading", 1 << 50, 3 << 40), "simple-1: 3.0 TiB of 1024.0 TiB (0 %)."),
        (CopyProgress("Downloading", 8, 9), "simple-1: 9 B of 8 B (100 %)."),
        (CopyProgress("Downloading", 0, 0), "simple-1: Downloading."),
        (CopyProgress("Verifying", 9, 9), "simple-1: Verifying."),
    ],
)
def test_how_far_a_copy_is(progress, words):
    """Asked on the port of the container that copies, which needs no right."""
    asked = []
    world = World(answer=lambda target: asked.append(target) or PodModels(progress=progress)).ask()
    world.go()
    world.run_pods(0, replicas=1, updatedReplicas=1).add_pod(**copying())
    world.go()
    world.go()

    assert asked == [Target("simple-1", "10.0.0.1", 0, status_port=8003, is_copying=True)]
    assert world.condition("Ready")["reason"] == "Syncing"
    assert words in world.condition("Ready")["message"]
    assert words in world.condition("RepositorySynced")["message"]
    assert world.condition("ModelsReady")["reason"] == "NoReadyPods"
    assert world.after == 2.0


def test_a_copy_in_the_nodes_network_has_no_port():
    """Another pod of the node may have it."""
    world = World().ask(podTemplate={"spec": {"hostNetwork": True}})
    world.go()

    template = world.cluster.named("Deployment")["spec"]["template"]["spec"]
    assert not any(word.startswith("--status-port") for word in template["initContainers"][0]["command"])


@pytest.mark.parametrize(
    ("conditions", "status", "reason", "words"),
    [
        ([], "Unknown", "Creating", ""),
        ([{"type": "ScalingActive", "status": "True"}], "True", "Available", ""),
        ([{"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled"}], "True", "Available", ""),
        (
            [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric",
              "message": "unable to fetch metrics from resource metrics API: could not find (get pods.metrics.k8s.io)"}],
            "False", "MetricsMissing", "Install metrics-server",
        ),
        (
            [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric",
              "message": "failed to get cpu utilization: missing request for cpu in container server of Pod a"}],
            "False", "MetricsMissing", "Set spec.resources.requests.cpu",
        ),
        (
            [{"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric",
              "message": "unable to get metric nv_gpu_utilization: no custom metrics API (custom.metrics.k8s.io)"}],
            "False", "MetricsMissing", "Install the adapter",
        ),
        ([{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no"}],
         "False", "FailedGetScale", "no"),
    ],
)  # fmt: skip
def test_conditions_of_the_autoscaler(conditions, status, reason, words):
    world = World().ask(autoscaling={"maxReplicas": 2, "metrics": [{"type": "CPU", "target": 70}]})
    world.go()
    live = world.cluster.named("HorizontalPodAutoscaler")
    world.cluster.add({**live, "status": {"conditions": conditions}})
    world.go()

    found = world.condition("AutoscalerReady")
    assert (found["status"], found["reason"]) == (status, reason)
    assert words in found["message"]


FOLLOWED = {"modelRepository": {"uri": "s3://bucket/models", "sync": {"mode": "Poll"}}}


@pytest.mark.parametrize(
    ("cause", "status", "reason"),
    [("Synced", "True", "Synced"), ("Denied", "False", "RepositoryDenied"), ("Unheard", "False", "SyncFailed")],
)
def test_a_bucket_that_is_followed(cause, status, reason):
    """The service goes on with what it has; the status tells of the bucket."""
    copy = CopyState(cause, "403 (AccessDenied; request 17A9)", "sha256:cd", 4, 12)
    world = World(answer=PodModels((ModelState("a", "1", "Ready"),), copy=copy)).ask(**FOLLOWED)
    world.go()
    world.run_pods().add_pod(**serving()).go()
    world.go()

    assert world.condition("Ready")["status"] == "True"
    assert world.condition("Stalled")["status"] == "False"
    found = world.condition("RepositorySynced")
    assert (found["status"], found["reason"]) == (status, reason)
    assert world.status["modelRevision"] == {"current": "sha256:cd", "objects": 4, "bytes": 12}
    assert "17A9" not in found["message"]


@pytest.mark.parametrize(("ports", "port"), [({}, 8003), ({"http": 8003, "grpc": 8004}, 8005)])
def test_the_port_of_what_follows_the_bucket(ports, port):
    world = World().ask(**FOLLOWED, networking={"ports": ports})
    world.go()

    pod = world.cluster.named("Deployment")["spec"]["template"]["spec"]
    assert f"--status-port={port}" in pod["initContainers"][1]["command"]


def test_a_model_that_does_not_load():
    models = PodModels((ModelState("a", "1", "Ready"), ModelState("b", "2", "Unavailable", "no such file")))
    world = World(answer=models).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.go()

    assert world.condition("ModelsReady")["reason"] == "SomeFailed"
    assert "b version 2: no such file" in world.condition("ModelsReady")["message"]
    assert world.condition("Ready")["status"] == "True", "the other one is served"
    assert (world.status["phase"], world.status["modelsReady"]) == ("Degraded", "1/2")
    assert world.after == 2.0, "it is asked again soon"


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (PodModels(error="pod a wants a token", refused=True), "True", "NotListed"),
        (PodModels(error="pod a does not tell"), "Unknown", "ProbeUnreachable"),
        (PodModels(), "False", "NoModels"),
    ],
)
def test_pods_that_tell_no_models(answer, status, reason):
    world = World(answer=answer).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.go()

    assert (world.condition("ModelsReady")["status"], world.condition("ModelsReady")["reason"]) == (status, reason)
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize(
    ("spec", "deployment", "condition", "reason"),
    [
        ({"suspend": True}, {}, "Ready", "Suspended"),
        ({"replicas": 0}, {}, "Ready", "ScaledToZero"),
        ({}, {"observedGeneration": 0}, "Reconciling", "RollingUpdate"),
        ({}, {"updatedReplicas": 0}, "Reconciling", "RollingUpdate"),
        ({"replicas": 2}, {}, "Reconciling", "Scaling"),
        ({}, {"readyReplicas": 0, "conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}, "Stalled", "ProgressDeadlineExceeded"),
        ({}, {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]}, "WorkloadAvailable", "ForbiddenByPolicy"),
    ],
)  # fmt: skip
def test_conditions_of_the_workload(spec, deployment, condition, reason):
    world = World().ask(**spec)
    world.go()
    world.run_pods(**deployment)
    world.go()

    assert world.condition(condition)["reason"] == reason


@pytest.mark.parametrize(
    ("parents", "reason"),
    [
        ([], "NotAccepted"),
        ([{"conditions": [{"type": "Accepted", "status": "False", "reason": "NoMatchingParent"}]}], "NoMatchingParent"),
        ([{"conditions": [{"type": "Accepted", "status": "True"}]}], "Accepted"),
    ],
)
def test_conditions_of_the_route(parents, reason):
    world = World().ask(networking={"gateway": {"parentRefs": [{"name": "a"}]}})
    world.go()
    world.cluster.add({**world.cluster.named("HTTPRoute"), "status": {"parents": parents}})
    world.go()

    assert world.condition("RouteReady")["reason"] == reason


@pytest.mark.parametrize("kind", ["HTTPRoute", "GRPCRoute"])
def test_each_route_counts(kind):
    gateway = {"parentRefs": [{"name": "a"}]}
    world = World().ask(networking={"gateway": gateway, "hostnames": ["a.b"], "grpcHostnames": ["c.b"]})
    world.go()
    for each in ("HTTPRoute", "GRPCRoute"):
        refused = {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound", "message": "none"}
        accepted = {"type": "Accepted", "status": "True"}
        parents = [{"conditions": [accepted, *([refused] if each == kind else [])]}]
        world.cluster.add({**world.cluster.named(each), "status": {"parents": parents}})
    world.go()

    condition = world.condition("RouteReady")
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "BackendNotFound", "none")


def test_times_of_transitions():
    """A condition's time changes with its status, not with its message."""
    world = World().ask()
    world.go()
    first = world.condition("Ready")["lastTransitionTime"]
    world.run_pods(0, replicas=1).add_pod(**PODS["CrashLoop"])
    world.go()
    assert world.condition("Ready")["lastTransitionTime"] == first

    world.run_pods().add_pod(**serving())
    world.go()

    assert world.condition("Ready")["lastTransitionTime"] != first


def test_an_event_when_service_is_lost():
    world = World().ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.run_pods(0, replicas=1, updatedReplicas=1).add_pod(**PODS["CrashLoop"])
    world.go()

    assert world.cluster.events == [("Normal", "Serving"), ("Warning", "CrashLoop")]


def test_a_definition_that_is_older_than_the_operator():
    """The status that it can hold is written once, and then nothing any more."""

    class Older(FakeCluster):
        def status_schema(self):
            return {"properties": {name: schema for name, schema in STATUS["properties"].items() if name != "image"}}

        def apply_status(self, service, status):
            if "image" in status:
                raise ClusterError(422, "Invalid", ".status.image: field not declared in schema")
            return super().apply_status(service, status)

    world = World(cluster=Older()).ask()
    world.go()

    assert "image" not in world.status
    assert world.status["observedGeneration"] == 1
    world.go()
    assert world.go() == []


def orphaned():
    """A service that was deleted with `--cascade=orphan`, and asked for again."""
    world = World().ask()
    world.go()
    del world.cluster.objects["InferenceService", *KEY]
    for body in world.cluster.objects.values():
        body["metadata"]["ownerReferences"] = []
    again = World(dataclasses.replace(SETTINGS, runtime_image="example.com/runtime:2"), world.cluster)
    body = a_body()
    body["metadata"]["uid"] = "another"
    return again, body


def test_orphans_are_left_alone_and_the_message_says_how_to_adopt_them():
    world, body = orphaned()
    world.cluster.add(body)
    world.go()

    assert world.condition("Stalled")["reason"] == "NameConflict"
    assert "serving.charonia.dev/adopt-orphans=true" in world.condition("Stalled")["message"]
    assert world.cluster.named("Deployment")["metadata"]["ownerReferences"] == []


def test_orphans_are_adopted_by_an_annotation():
    """With the template that their pods were made of: none restarts."""
    world, body = orphaned()
    body["metadata"]["annotations"] = {"serving.charonia.dev/adopt-orphans": "true"}
    before = world.cluster.named("Deployment")["spec"]["template"]
    world.cluster.add(body)
    world.go()

    assert world.condition("Stalled")["status"] == "False"
    assert world.cluster.named("Deployment")["metadata"]["ownerReferences"][0]["uid"] == "another"
    assert world.cluster.named("Deployment")["spec"]["template"] == before


def test_what_the_operator_did_not_make_is_never_adopted():
    world, body = orphaned()
    body["metadata"]["annotations"] = {"serving.charonia.dev/adopt-orphans": "true"}
    world.cluster.named("Service")["metadata"]["labels"] = {}
    world.cluster.add(body)
    world.go()

    assert world.condition("Stalled")["reason"] == "NameConflict"
    assert "Delete or rename it" in world.condition("Stalled")["message"]
