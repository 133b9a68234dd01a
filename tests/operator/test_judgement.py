"""Every cause of a failure, at a first start and at an update: Ready, Stalled, Reconciling, the Event, Argo CD, Flux."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from charonia_operator.cluster import ClusterError
from charonia_operator.observation import CopyProgress, ModelState, PodModels
from charonia_operator.reasons import TROUBLES, Reason
from tests.support.gitops import health, kstatus
from tests.support.operator_world import World, failed, serving

LONG_AGO, JUST_NOW = "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z"
BUCKET = {"uri": "s3://bucket/models"}


@dataclass(frozen=True)
class Cause:
    """How the cluster shows a cause, and what is said of it."""

    reason: str
    words: tuple[str, ...]
    pod: Mapping[str, Any] | None = None
    """Status of a pod of the current revision; None where there is none."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    deployment: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()
    told: PodModels = field(default_factory=PodModels)
    refused: tuple[str, str, int, str] | None = None
    """Verb, kind, status and words of a refusal by the API server."""
    stuck: bool = True


def unschedulable(words):
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]}


def waiting(reason, words, container="server"):
    status = {"name": container, "image": "a/b:1", "state": {"waiting": {"reason": reason, "message": words}}}
    return {"containerStatuses" if container == "server" else "initContainerStatuses": [status]}


def mounting(words, since=LONG_AGO):
    event = {"reason": "FailedMount", "message": words, "firstTimestamp": since}
    return {"pod": waiting("ContainerCreating", ""), "events": (event,)}


def refused_pods(words):
    return {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": words}]}


def sync(cause, words, since=LONG_AGO):
    pod = failed("model-sync", f'{{"reason": "{cause}", "message": "{words}"}}')
    pod["initContainerStatuses"][0]["lastState"]["terminated"]["startedAt"] = since
    return pod


def running(container="server"):
    state = {"name": container, "started": True, "state": {"running": {}}}
    return {"podIP": "10.0.0.2", "containerStatuses" if container == "server" else "initContainerStatuses": [state]}


OVERDUE = {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}
BROKEN = PodModels((ModelState("a", "1", "Ready"), ModelState("b", "2", "Unavailable", "no such file")))
SECRET = {"modelRepository": {**BUCKET, "credentials": {"secretRef": {"name": "oss"}}}}
AUTHORITY = {"modelRepository": {**BUCKET, "caBundleRef": {"name": "ca", "key": "root.pem"}}}
GUARDED = {"access": {"type": "Token", "tokenSecretRefs": [{"name": "first"}, {"name": "second", "key": "word"}]}}
PASSWORD = {
    "server": {"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "pass", "key": "word"}}}]},
}
CLAIM = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "cache"}}
PIP = {"python": {"requirements": ["torch==2.0.1"]}}
PIP_LOG = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'ProxyError('Cannot connect to proxy.')': /simple/torch/
ERROR: Could not find a version that satisfies the requirement torch==2.0.1 (from versions: none)
ERROR: No matching distribution found for torch==2.0.1"""

CAUSES = {
    # the pods cannot be made
    "quota": Cause(
        "QuotaExceeded", ("ResourceQuota gpus", "spec.gpu.count"),
        deployment=refused_pods('pods "a" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'),
    ),
    "Pod Security": Cause(
        "PodSecurityViolation", ("spec.podTemplate",),
        deployment=refused_pods('pods "a" is forbidden: violates PodSecurity "restricted:latest": host namespaces'),
    ),
    "service account": Cause(
        "ServiceAccountMissing", ("ServiceAccount reader", "spec.serviceAccountName"),
        deployment=refused_pods('error looking up service account default/reader: serviceaccount "reader" not found'),
    ),
    "priority class": Cause(
        "PriorityClassMissing", ("PriorityClass high", "spec.scheduling.priorityClassName"),
        deployment=refused_pods('pods "a" is forbidden: no PriorityClass with name high was found'),
    ),
    "runtime class": Cause(
        "RuntimeClassMissing", ("RuntimeClass gvisor", "spec.scheduling.runtimeClassName"),
        deployment=refused_pods('pods "a" is forbidden: pod rejected: RuntimeClass "gvisor" not found'),
    ),
    "webhook": Cause(
        "ForbiddenByPolicy", ("admission webhook policy.example.com",),
        deployment=refused_pods('admission webhook "policy.example.com" denied the request: no'),
    ),
    # the pods find no node
    "no free GPU": Cause(
        "InsufficientGPU", ("nvidia.com/gpu", "spec.gpu.count"),
        unschedulable("0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate"),
        spec={"gpu": {"count": 2}},
    ),
    "no such GPU": Cause(
        "GPUProductMissing", ("A100", "spec.gpu.products"),
        unschedulable("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        spec={"gpu": {"count": 1, "products": ["A100"]}},
    ),
    "no fitting node": Cause(
        "Unschedulable", ("spec.scheduling.nodeSelector",),
        unschedulable("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        spec={"scheduling": {"nodeSelector": {"disk": "ssd"}}},
    ),
    "no memory": Cause(
        "Unschedulable", ("spec.resources.requests.memory",), unschedulable("0/2 nodes are available: 2 Insufficient memory."),
    ),
    "taint": Cause(
        "Unschedulable", ("{gpu: yes}", "spec.scheduling.tolerations"),
        unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}."),
    ),
    "missing claim": Cause(
        "ClaimMissing", ("PersistentVolumeClaim models", "spec.modelRepository.uri"),
        unschedulable('0/1 nodes are available: persistentvolumeclaim "models" not found.'),
        spec={"modelRepository": {"uri": "pvc://models/a"}},
    ),
    "missing cache": Cause(
        "ClaimMissing", ("cache", "spec.modelRepository.cache.persistentVolumeClaim.claimName"),
        unschedulable('0/1 nodes are available: persistentvolumeclaim "cache" not found.'),
        spec={"modelRepository": {**BUCKET, "cache": CLAIM}},
    ),
    "unbound claim": Cause(
        "ClaimNotBound", ("kubectl describe pvc models",),
        unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        spec={"modelRepository": {"uri": "pvc://models/a"}},
    ),
    # what the pods mount or read is missing
    "missing Secret": Cause(
        "SecretMissing", ("Secret oss", "accessKeyId and accessKeySecret", "spec.modelRepository.credentials.secretRef"),
        spec=SECRET, **mounting('MountVolume.SetUp failed for volume "credentials" : secret "oss" not found'),
    ),
    "missing key of a Secret": Cause(
        "SecretMissing", ("key accessKeySecret", "Secret oss", "spec.modelRepository.credentials.keys"),
        sync("SecretMissing", "the credentials folder /var/run has no accessKeySecret: expected a file accessKeySecret or A"),
        spec=SECRET,
    ),
    "missing key of a token": Cause(
        "SecretMissing", ("key word", "Secret second", "spec.access.tokenSecretRefs[1]"), spec=GUARDED,
        **mounting('MountVolume.SetUp failed for volume "tokens" : references non-existent secret key: word'),
    ),
    "missing key of a variable": Cause(
        "SecretMissing", ("key word", "Secret pass", "spec.server.env[0]"), spec=PASSWORD,
        pod=waiting("CreateContainerConfigError", "couldn't find key word in Secret default/pass"),
    ),
    "missing authority": Cause(
        "ConfigurationMissing", ("ConfigMap ca", "root.pem", "spec.modelRepository.caBundleRef"), spec=AUTHORITY,
        **mounting('MountVolume.SetUp failed for volume "authorities" : configmap "ca" not found'),
    ),
    "missing key of the authority": Cause(
        "ConfigurationMissing", ("key root.pem", "ConfigMap ca", "spec.modelRepository.caBundleRef"), spec=AUTHORITY,
        **mounting('MountVolume.SetUp failed for volume "authorities" : references non-existent config key: root.pem'),
    ),
    "volume": Cause("VolumeNotMounted", ("kubectl describe pod",), **mounting("rpc error: device busy")),
    "volume, at first": Cause(
        "VolumeNotMounted", ("device busy",), stuck=False, **mounting("rpc error: device busy", since=JUST_NOW)
    ),
    "runtime": Cause(
        "ContainerCannotStart", ("nvidia", "spec.scheduling.runtimeClassName"), waiting("ContainerCreating", ""),
        events=({
            "reason": "FailedCreatePodSandBox", "firstTimestamp": JUST_NOW,
            "message": 'failed to get sandbox runtime: no runtime for "nvidia" is configured',
        },),
    ),
    # the models do not come
    "wrong secret": Cause(
        "RepositoryDenied", ("Secret oss", "secret"), sync("Denied", "denied (SignatureDoesNotMatch: no; request 17A)"),
        spec=SECRET,
    ),
    "wrong id": Cause("RepositoryDenied", ("id in Secret oss",), sync("Denied", "(InvalidAccessKeyId: no)"), spec=SECRET),
    "unsigned": Cause(
        "RepositoryDenied", ("spec.modelRepository.credentials.secretRef",),
        sync("Denied", "denied (AccessDenied: no; key none, the request was not signed; request 17A)"),
    ),
    "empty folder": Cause("RepositoryEmpty", ("spec.modelRepository.uri",), sync("Empty", "no object under 'a/'")),
    "misspelt host": Cause(
        "RepositoryUnreachable", ("No DNS knows", "spec.modelRepository.endpoint"),
        sync("Unreachable", "no answer from http://stoer: Failed to resolve 'stoer'"),
    ),
    "misspelt host, while it is asked": Cause(
        "RepositoryUnreachable", ("No DNS knows", "spec.modelRepository.endpoint"), running("model-sync"),
        told=PodModels(progress=CopyProgress("Listing", 0, 0, "Unreachable", "Failed to resolve 'stoer'", 31.0)),
    ),
    "silent host": Cause(
        "RepositoryUnreachable", ("spec.modelRepository.endpoint",), running("model-sync"), stuck=False,
        told=PodModels(progress=CopyProgress("Listing", 0, 0, "Unreachable", "no answer from a: timed out", 12.0)),
    ),
    "TLS to a plain port": Cause(
        "RepositoryInvalid", ("http://store:9000", "spec.modelRepository.endpoint"),
        sync("Denied", "the service's certificate is not trusted: SSL: WRONG_VERSION_NUMBER"),
        spec={"modelRepository": {**BUCKET, "endpoint": "https://store:9000"}},
    ),
    "wrong authority": Cause(
        "RepositoryNotTrusted", ("key root.pem of ConfigMap ca", "spec.modelRepository.caBundleRef"),
        sync("Denied", "the service's certificate is not trusted: CERTIFICATE_VERIFY_FAILED"), spec=AUTHORITY,
    ),
    "no authority": Cause(
        "RepositoryNotTrusted", ("spec.modelRepository.caBundleRef",),
        sync("Denied", "the service's certificate is not trusted: CERTIFICATE_VERIFY_FAILED"),
    ),
    "copy that ends": Cause("SyncFailed", ("kubectl logs",), failed("model-sync", "Segmentation fault"), stuck=False),
    # the packages do not come
    "no such package": Cause(
        "PythonDependenciesFailed", ("torch==2.0.1", "spec.python.requirements"), spec=PIP,
        pod=failed("python-packages", "ERROR: No matching distribution found for torch==2.0.1"),
    ),
    "broken proxy": Cause(
        "PythonDependenciesFailed", ("proxy", "spec.python.configSecretRef"), failed("python-packages", PIP_LOG), spec=PIP,
    ),
    "slow index": Cause(
        "PythonDependenciesFailed", ("spec.python.timeoutSeconds",), failed("python-packages", "exit code 124"), spec=PIP,
    ),
    # the containers do not start
    "image": Cause(
        "ImagePullFailed", ("a/b:1", "spec.server.image"), spec={"server": {"image": "a/b:1"}},
        pod=waiting("ErrImagePull", "rpc error: code = NotFound desc = a/b:1: not found"),
    ),
    "registry's password": Cause(
        "ImagePullFailed", ("spec.imagePullSecrets",), waiting("ErrImagePull", "pull access denied"),
        spec={"server": {"image": "a/b:1"}},
    ),
    "command": Cause(
        "ContainerCannotStart", ("nope", "spec.server.command[0]"), spec={"server": {"command": ["nope"]}},
        pod=waiting("RunContainerError", 'unable to start container process: exec: "nope": executable file not found'),
    ),
    "root": Cause(
        "RunsAsRoot", ("runAsUser", "spec.podTemplate.spec.securityContext"),
        waiting("CreateContainerConfigError", "container's runAsUser breaks non-root policy", "model-sync"),
    ),
    "flag": Cause(
        "CrashLoop", ("--nope", "spec.server.args"),
        failed("server", "charonia serve: unrecognized option '--nope'\n`charonia serve --help` lists every option."),
    ),
    "memory": Cause("OutOfMemory", ("spec.resources.limits.memory",), failed("server", "", reason="OOMKilled")),
    "broken model": Cause("SomeFailed", ("b version 2", "no such file"), running(), told=BROKEN),
    "evicted": Cause("Evicted", ("low on disk",), {"phase": "Failed", "reason": "Evicted", "message": "low on disk"}),
    # nothing fails, and it takes too long
    "slow start": Cause(
        "ProgressDeadlineExceeded", ("does not say that it is ready", "spec.probes"), running(), deployment=OVERDUE
    ),
    "slow copy": Cause(
        "ProgressDeadlineExceeded", ("copies its models", "include"), running("model-sync"), deployment=OVERDUE
    ),
    "slow model": Cause(
        "ProgressDeadlineExceeded", ("1 models still load, b first",), running(), deployment=OVERDUE,
        told=PodModels((ModelState("a", "1", "Ready"), ModelState("b", "2", "Loading"))),
    ),
    "no pod": Cause("ProgressDeadlineExceeded", ("kubectl describe deployment simple",), deployment=OVERDUE),
    # the API server refuses what is made of the spec
    "template": Cause(
        "SpecInvalid", ("Deployment: spec.template: no",), refused=("apply", "Deployment", 422, "spec.template: no")
    ),
    "rights": Cause(
        "ForbiddenByPolicy", ("cannot patch deployments",),
        refused=("apply", "Deployment", 403, "cannot patch deployments"),
    ),
}  # fmt: skip


def show(world, cause, pod, *, old):
    """What the cluster's controllers and the kubelet do of a cause; `old`: so many pods of the earlier spec serve."""
    counts = {"replicas": old + (cause.pod is not None), "updatedReplicas": int(cause.pod is not None)}
    world.cluster.pod_events = list(cause.events)
    for conditions in ({}, cause.deployment):
        if ("Deployment", "default", "simple") in world.cluster.objects:
            world.run_pods(old, **counts, **conditions)
        if cause.pod is not None:
            world.add_pod(pod, **cause.pod)
        world.go()


def a_world(cause):
    def answer(target):
        return cause.told if target.pod == "simple-2" else PodModels((ModelState("a", "1", "Ready"),))

    return World(answer=answer)


def refuse(world, cause):
    if cause.refused:
        verb, kind, status, words = cause.refused
        world.cluster.refuse[verb, kind] = ClusterError(status, "Reason", words)


def judged(world):
    """Ready, Stalled and Reconciling, and what Argo CD and Flux make of them."""
    resource = world.cluster.named("InferenceService")
    found = {name: world.condition(name) for name in ("Ready", "Stalled", "Reconciling")}
    conditions = {name: f"{each['status']} {each['reason']}" for name, each in found.items()}
    return {**conditions, "Argo CD": health(resource)[0], "Flux": kstatus(resource)}


def words_lacking(cause, text):
    return [word for word in cause.words if word not in text]


@pytest.mark.parametrize("name", CAUSES)
def test_a_first_start(name):
    cause = CAUSES[name]
    world = a_world(cause).ask(**cause.spec)
    refuse(world, cause)
    world.go()

    show(world, cause, "simple-2", old=0)

    found, ready = judged(world), world.condition("Ready")
    assert found["Ready"] == f"False {cause.reason}"
    assert words_lacking(cause, ready["message"]) == [], ready["message"]
    if cause.stuck:
        assert found["Stalled"] == f"True {cause.reason}"
        assert found["Reconciling"] == f"False {cause.reason}"
        assert (found["Argo CD"], found["Flux"]) == ("Degraded", "Failed")
        assert world.cluster.events == [("Warning", cause.reason)]
        assert words_lacking(cause, world.cluster.messages[0]) == []
    else:
        assert found["Stalled"] == "False Progressing"
        assert found["Reconciling"].startswith("True")
        assert (found["Argo CD"], found["Flux"]) == ("Progressing", "InProgress")
        assert world.cluster.events == []
    assert [write for write in world.go() if write[0] == "status"] == [], "nothing more is to be said"


@pytest.mark.parametrize("name", CAUSES)
def test_an_update(name):
    """The old pod serves on: Ready stays True, and everything else tells of the failure."""
    cause = CAUSES[name]
    world = a_world(cause).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.go()
    assert world.cluster.events == [("Normal", "Serving")]

    world.ask(**{"server": {"args": ["--log-verbose=1"]}, **cause.spec})
    refuse(world, cause)
    world.go()
    show(world, cause, "simple-2", old=1)

    found, stalled, ready = judged(world), world.condition("Stalled"), world.condition("Ready")
    if cause.stuck:
        assert found["Ready"] == "True UpdateFailed"
        assert words_lacking(cause, ready["message"]) == [], ready["message"]
        assert found["Stalled"] == f"True {cause.reason}"
        assert words_lacking(cause, stalled["message"]) == []
        assert found["Reconciling"] == f"False {cause.reason}"
        assert (found["Argo CD"], found["Flux"]) == ("Degraded", "Failed")
        assert world.cluster.events[1:] == [("Warning", cause.reason)]
        assert words_lacking(cause, world.cluster.messages[1]) == []
        assert world.status["phase"] == "Degraded"
    else:
        assert found["Ready"] == "True Serving"
        assert found["Stalled"] == "False Progressing"
        assert found["Reconciling"] == "True RollingUpdate"
        assert (found["Argo CD"], found["Flux"]) == ("Progressing", "InProgress")
        assert world.cluster.events[1:] == []
        assert world.status["phase"] == "Updating"
    assert [write for write in world.go() if write[0] == "status"] == [], "nothing more is to be said"


def test_an_update_that_is_set_back():
    cause = CAUSES["image"]
    world = a_world(cause).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.ask(**cause.spec).go()
    show(world, cause, "simple-2", old=1)
    assert judged(world)["Ready"] == "True UpdateFailed"

    world.ask().go()
    del world.cluster.objects["Pod", "default", "simple-2"]
    world.run_pods().go()

    assert judged(world) == {
        "Ready": "True Serving",
        "Stalled": "False Progressing",
        "Reconciling": "False UpToDate",
        "Argo CD": "Healthy",
        "Flux": "Current",
    }
    assert world.cluster.events[-1] == ("Normal", "UpToDate")


def test_more_pods_that_cannot_come():
    """The revision is the same: what serves is no earlier one."""
    world = World(answer=PodModels((ModelState("a", "1", "Ready"),))).ask(replicas=2)
    world.go()
    world.run_pods(1, replicas=2, updatedReplicas=2).add_pod(**serving())
    world.add_pod("simple-2", **CAUSES["no memory"].pod).go()

    assert judged(world)["Ready"] == "True Degraded"
    assert world.condition("Ready")["message"].startswith("1 of 2 pods serve; Unschedulable: Pod simple-2:")
    assert judged(world)["Stalled"] == "True Unschedulable"


def test_a_restart_that_fails():
    """`kubectl rollout restart` makes other pods of the same revision."""
    world = World(answer=PodModels((ModelState("a", "1", "Ready"),))).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.run_pods(1, replicas=2).add_pod("simple-2", **CAUSES["image"].pod)
    for name, template, born in (("simple-1", "x", "2026-01-01T00:00:00Z"), ("simple-2", "y", "2026-01-02T00:00:00Z")):
        metadata = world.cluster.named("Pod", name)["metadata"]
        metadata["creationTimestamp"] = born
        metadata["labels"]["pod-template-hash"] = template
        metadata["resourceVersion"] = "1000"
    world.go()

    assert judged(world)["Ready"] == "True UpdateFailed"
    assert judged(world)["Stalled"] == "True ImagePullFailed"


def test_a_pod_too_many_that_has_failed():
    """What an eviction leaves behind is no failure of a service that has all of its pods."""
    world = World(answer=PodModels((ModelState("a", "1", "Ready"),))).ask()
    world.go()
    world.run_pods().add_pod(**serving()).add_pod("simple-2", **CAUSES["evicted"].pod).go()

    assert judged(world)["Ready"] == "True Serving"
    assert judged(world)["Stalled"] == "False Progressing"


@pytest.mark.parametrize("before", [True, False], ids=["update", "create"])
def test_a_service_of_another_owner(before):
    """Pods that nothing leads to do not make a service ready."""
    world = World(answer=PodModels((ModelState("a", "1", "Ready"),)))
    if before:
        world.ask().go()
        del world.cluster.objects["Service", "default", "simple"]
    world.cluster.add({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "simple"}, "spec": {}})
    world.ask().go()
    world.run_pods().add_pod(**serving()).go()

    found = judged(world)
    assert (found["Ready"], found["Stalled"]) == ("False NameConflict", "True NameConflict")
    assert found["Argo CD"] == "Degraded"


def test_a_service_that_may_not_be_made():
    world = World().ask()
    world.cluster.refuse["apply", "Service"] = ClusterError(403, "Forbidden", "cannot create services")
    world.go()
    world.run_pods().add_pod(**serving()).go()

    assert judged(world)["Ready"] == "False ForbiddenByPolicy"


def test_a_spec_that_cannot_be_read_while_pods_serve():
    world = World(answer=PodModels((ModelState("a", "1", "Ready"),))).ask()
    world.go()
    world.run_pods().add_pod(**serving()).go()

    world.ask(replicas="many").go()

    assert judged(world)["Ready"] == "True UpdateFailed"
    assert judged(world)["Stalled"] == "True SpecInvalid"
    assert "spec.replicas" in world.condition("Stalled")["message"]
    assert judged(world)["Argo CD"] == "Degraded"


def test_gpus_that_the_old_pods_hold():
    cause = CAUSES["no free GPU"]
    world = a_world(cause).ask()
    world.go()
    world.run_pods().add_pod(**serving())
    world.go()
    world.ask(**cause.spec).go()
    show(world, cause, "simple-2", old=1)

    assert "pods of the earlier revision keep theirs" in world.condition("Stalled")["message"]


def test_a_broken_model_that_readiness_does_not_wait_for():
    """The pod is about to be ready, and the model is told by another condition."""
    world = World(answer=BROKEN).ask(server={"args": ["--strict-readiness=false"]})
    world.go()
    world.run_pods(0, replicas=1).add_pod(**running())
    world.go()
    world.go()

    assert judged(world)["Stalled"] == "False Progressing"
    assert world.condition("ModelsReady")["reason"] == "SomeFailed"


def test_most_reasons_are_in_the_matrix():
    """Of those that pods or models can have; the others belong to routes, copies that go on, and the like."""
    told = {cause.reason for cause in CAUSES.values()}
    others = {
        Reason.UPDATE_FAILED, Reason.DEGRADED, Reason.NAME_CONFLICT, Reason.CRD_MISSING, Reason.NOT_ACCEPTED,
        Reason.METRICS_MISSING, Reason.NO_MODELS, Reason.PROBE_UNREACHABLE, Reason.NOT_LISTED, Reason.POD_FAILED,
        Reason.SANDBOX_FAILED, Reason.REPOSITORY_NOT_FOUND, Reason.REPOSITORY_CHANGING, Reason.INTEGRITY_FAILED,
        Reason.LAYOUT_INVALID, Reason.REVISION_MISMATCH, Reason.DISK_TOO_SMALL, Reason.DISK_FAILED,
    }  # fmt: skip

    assert set(TROUBLES) - told == others
