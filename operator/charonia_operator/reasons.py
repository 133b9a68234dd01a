"""
The reasons of conditions and events: one word for programs, what it means and what to do for people.

The table in the operator's README is made of this: `python -m charonia_operator.reasons`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Reasons that the operator gives by itself. Others are the cluster's own, which it hands on."""

    # all is well, or on its way
    SERVING = "Serving"
    UPDATE_FAILED = "UpdateFailed"
    DEGRADED = "Degraded"
    AVAILABLE = "Available"
    ALL_READY = "AllReady"
    SYNCED = "Synced"
    NOT_COPIED = "NotCopied"
    ACCEPTED = "Accepted"
    INGRESS_CREATED = "IngressCreated"
    UP_TO_DATE = "UpToDate"
    PROGRESSING = "Progressing"
    SUSPENDED = "Suspended"
    SCALED_TO_ZERO = "ScaledToZero"
    CREATING = "Creating"
    ROLLING_UPDATE = "RollingUpdate"
    SCALING = "Scaling"
    NO_PODS = "NoPods"
    NO_READY_PODS = "NoReadyPods"
    SCHEDULING = "Scheduling"
    SYNCING = "Syncing"
    DOWNLOADING = "Downloading"
    INSTALLING = "InstallingPythonDependencies"
    STARTING = "Starting"
    LOADING_MODELS = "LoadingModels"
    LOADING = "Loading"
    # the spec, and what the cluster lets the operator do
    SPEC_INVALID = "SpecInvalid"
    NAME_CONFLICT = "NameConflict"
    FORBIDDEN = "ForbiddenByPolicy"
    CRD_MISSING = "CRDMissing"
    NOT_ACCEPTED = "NotAccepted"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_SECURITY = "PodSecurityViolation"
    SERVICE_ACCOUNT_MISSING = "ServiceAccountMissing"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    RUNTIME_CLASS_MISSING = "RuntimeClassMissing"
    METRICS_MISSING = "MetricsMissing"
    # pods
    INSUFFICIENT_GPU = "InsufficientGPU"
    GPU_PRODUCT_MISSING = "GPUProductMissing"
    UNSCHEDULABLE = "Unschedulable"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_BOUND = "ClaimNotBound"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a word
    CONFIGURATION_MISSING = "ConfigurationMissing"
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    SANDBOX_FAILED = "SandboxFailed"
    CONTAINER_CANNOT_START = "ContainerCannotStart"
    RUNS_AS_ROOT = "RunsAsRoot"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    POD_FAILED = "PodFailed"
    DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    # the repository
    REPOSITORY_DENIED = "RepositoryDenied"
    REPOSITORY_NOT_TRUSTED = "RepositoryNotTrusted"
    REPOSITORY_NOT_FOUND = "RepositoryNotFound"
    REPOSITORY_EMPTY = "RepositoryEmpty"
    REPOSITORY_INVALID = "RepositoryInvalid"
    REPOSITORY_UNREACHABLE = "RepositoryUnreachable"
    REPOSITORY_CHANGING = "RepositoryChanging"
    INTEGRITY_FAILED = "IntegrityFailed"
    LAYOUT_INVALID = "LayoutInvalid"
    REVISION_MISMATCH = "RevisionMismatch"
    DISK_TOO_SMALL = "DiskTooSmall"
    DISK_FAILED = "DiskFailed"
    SYNC_FAILED = "SyncFailed"
    # models
    PACKAGES_FAILED = "PythonDependenciesFailed"
    SOME_FAILED = "SomeFailed"
    NO_MODELS = "NoModels"
    PROBE_UNREACHABLE = "ProbeUnreachable"
    NOT_LISTED = "NotListed"


@dataclass(frozen=True, slots=True)
class Explanation:
    """For people. `remedy` is what a condition's message says where `remedies` knows nothing closer to the cause."""

    meaning: str
    remedy: str


TROUBLES: dict[Reason, Explanation] = {
    Reason.UPDATE_FAILED: Explanation(
        "Pods of the earlier spec serve on, because those of the changed spec cannot; `Stalled` has the cause.",
        "Do what the condition Stalled says, or set the spec back.",
    ),
    Reason.DEGRADED: Explanation(
        "Fewer pods serve than are wanted, or another part of the service fails; `Stalled` has the cause.",
        "Do what the condition Stalled says.",
    ),
    Reason.SPEC_INVALID: Explanation(
        "The operator or the API server refuses the spec, or what was made of it; children stay as they are.",
        "Correct the field that the message names.",
    ),
    Reason.NAME_CONFLICT: Explanation(
        "An object that this service needs exists, and is somebody else's.",
        "Delete or rename it, or give the service another name.",
    ),
    Reason.FORBIDDEN: Explanation(
        "RBAC, a quota or an admission policy refuses an object.",
        "Grant the operator what the message names, or raise the quota.",
    ),
    Reason.QUOTA_EXCEEDED: Explanation(
        "A ResourceQuota of the namespace admits no more pods of this size.",
        "Raise the quota, or lower spec.resources, spec.gpu.count or spec.replicas.",
    ),
    Reason.POD_SECURITY: Explanation(
        "The namespace's Pod Security level does not admit the pods.",
        "Take what the message names out of spec.podTemplate, or change the namespace's labels.",
    ),
    Reason.SERVICE_ACCOUNT_MISSING: Explanation(
        "The pods' service account does not exist.", "Create it, or correct spec.serviceAccountName."
    ),
    Reason.PRIORITY_CLASS_MISSING: Explanation(
        "The priority class does not exist.", "Create it, or correct spec.scheduling.priorityClassName."
    ),
    Reason.RUNTIME_CLASS_MISSING: Explanation(
        "The runtime class does not exist.", "Create it, or correct spec.scheduling.runtimeClassName."
    ),
    Reason.METRICS_MISSING: Explanation(
        "The autoscaler cannot read its metrics; the number of pods stays as it is.",
        "Install metrics-server, or the adapter of the metric; spec.resources.requests must name cpu and memory.",
    ),
    Reason.CRD_MISSING: Explanation(
        "`networking.gateway` is set, and the cluster has no Gateway API.",
        "Install its definitions, or use `networking.ingress`.",
    ),
    Reason.NOT_ACCEPTED: Explanation(
        "No Gateway has taken the route.", "Check `networking.gateway.parentRefs` and the Gateway's allowed routes."
    ),
    Reason.INSUFFICIENT_GPU: Explanation(
        "No node has enough free GPUs of that kind.", "Free GPUs, add nodes, or ask for fewer in spec.gpu."
    ),
    Reason.GPU_PRODUCT_MISSING: Explanation(
        "No node has a GPU of one of the products.", "Correct spec.gpu.products, or add such a node."
    ),
    Reason.CLAIM_MISSING: Explanation(
        "The volume claim does not exist.", "Create it, or correct spec.modelRepository.uri or .cache."
    ),
    Reason.CLAIM_NOT_BOUND: Explanation(
        "The volume claim has no volume yet.", "See kubectl describe pvc: its storage class must provide a volume."
    ),
    Reason.UNSCHEDULABLE: Explanation(
        "No node fits: processors, memory, taints, affinity or a volume's zone.",
        "Lower spec.resources, or change spec.scheduling or the nodes.",
    ),
    Reason.IMAGE_PULL_FAILED: Explanation(
        "An image is not there, or the registry does not give it.",
        "Check spec.server.image and spec.imagePullSecrets.",
    ),
    Reason.SECRET_MISSING: Explanation(
        "A Secret, or a key of it, is missing.",
        "Create the Secret with these keys; the pod starts within two minutes.",
    ),
    Reason.CONFIGURATION_MISSING: Explanation(
        "A ConfigMap, or a key of it, is missing.", "Create it; the pod starts within two minutes."
    ),
    Reason.VOLUME_NOT_MOUNTED: Explanation(
        "The kubelet cannot mount a volume; it goes on trying.", "See kubectl describe pod, and the claim or driver."
    ),
    Reason.SANDBOX_FAILED: Explanation(
        "The node cannot make the pod's network or sandbox; it goes on trying.", "See kubectl describe pod."
    ),
    Reason.CONTAINER_CANNOT_START: Explanation(
        "The container runtime cannot start a container.", "Check spec.server.command and the image."
    ),
    Reason.RUNS_AS_ROOT: Explanation(
        "A container would run as root, which its security context forbids.",
        "Set another user than 0 in spec.podTemplate.spec.securityContext.runAsUser.",
    ),
    Reason.OUT_OF_MEMORY: Explanation(
        "A container used more memory than its limit; what lies in /dev/shm counts.",
        "Raise spec.resources.limits.memory.",
    ),
    Reason.CRASH_LOOP: Explanation(
        "The server ends again and again; the message has its last words.",
        "Correct spec.server; kubectl logs --previous has more.",
    ),
    Reason.POD_FAILED: Explanation(
        "A pod has failed as a whole, for instance `Evicted` by its node.", "See kubectl describe pod."
    ),
    Reason.DEADLINE_EXCEEDED: Explanation(
        "The pods were not ready in time; the message says what they wait for.",
        "Do what the message says, or raise spec.probes.startupTimeoutSeconds.",
    ),
    Reason.REPOSITORY_DENIED: Explanation(
        "The bucket refuses the credentials.",
        "Check the Secret of spec.modelRepository.credentials and the bucket's policy.",
    ),
    Reason.REPOSITORY_NOT_TRUSTED: Explanation(
        "The certificate of the store is of no known authority.", "Check spec.modelRepository.caBundleRef."
    ),
    Reason.REPOSITORY_NOT_FOUND: Explanation("There is no such bucket or folder.", "Check spec.modelRepository.uri."),
    Reason.REPOSITORY_EMPTY: Explanation(
        "Nothing lies below the URI.", "Check spec.modelRepository.uri, include and exclude, or upload the models."
    ),
    Reason.REPOSITORY_INVALID: Explanation(
        "The URI, the endpoint or an option cannot be used.", "Check spec.modelRepository."
    ),
    Reason.REPOSITORY_UNREACHABLE: Explanation(
        "The store does not answer, or asks to come back later; it is asked again.",
        "Check spec.modelRepository.endpoint, the network and its policies.",
    ),
    Reason.REPOSITORY_CHANGING: Explanation(
        "The bucket changed under the copy again and again.", "Finish the upload; the copy begins anew by itself."
    ),
    Reason.INTEGRITY_FAILED: Explanation(
        "Bytes differ from the store's checksum or from the manifest.", "Upload the named object again."
    ),
    Reason.LAYOUT_INVALID: Explanation(
        "Two objects cannot be files side by side, as `a` and `a/b`.", "Rename one of the objects."
    ),
    Reason.REVISION_MISMATCH: Explanation(
        "The content is not the one that is pinned.", "Restore it, or change spec.modelRepository.revision."
    ),
    Reason.DISK_TOO_SMALL: Explanation(
        "The models do not fit.", "Raise spec.modelRepository.cache.sizeLimit, or use a claim."
    ),
    Reason.DISK_FAILED: Explanation("The disk refuses to be written to.", "See the node's disk, or the claim."),
    Reason.SYNC_FAILED: Explanation(
        "The copy ended without a word of its own; it is tried again.", "See kubectl logs -c model-sync."
    ),
    Reason.PACKAGES_FAILED: Explanation(
        "pip cannot install spec.python; the message has its last words.",
        "Check spec.python: the packages must suit the server image's Python.",
    ),
    Reason.SOME_FAILED: Explanation(
        "Models do not load. A version that served before goes on serving.",
        "Correct the model that the message names; status.models has all of them.",
    ),
    Reason.NO_MODELS: Explanation(
        "The repository holds no model.", "A model is a folder with a folder of a number in it: check the URI's depth."
    ),
    Reason.PROBE_UNREACHABLE: Explanation(
        "The operator cannot ask the pods for their models; they may serve all the same.",
        "Let network policies admit the operator to the pods' ports for HTTP and metrics, and 8003.",
    ),
    Reason.NOT_LISTED: Explanation(
        "The pods want a token to list their models, as those from before an upgrade do.",
        "Nothing; or restart the pods.",
    ),
}
"""Reasons that somebody may have to do something about."""


def remedy_of(reason: str) -> str:
    """What to do, empty where nobody knows."""
    found = TROUBLES.get(Reason(reason)) if reason in set(Reason) else None
    return found.remedy if found else ""


def table() -> str:
    """Markdown."""
    rows = [f"| `{reason}` | {told.meaning} | {told.remedy} |" for reason, told in TROUBLES.items()]
    return "\n".join(["| reason | meaning | what to do |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table())  # noqa: T201 - the command's output
