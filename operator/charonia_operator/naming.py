"""Names, labels, selectors, owner references: how the operator's objects are called and found again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from charonia_operator.spec.service import InferenceServiceSpec

GROUP = "serving.charonia.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FIELD_MANAGER = "charonia-operator"
SERVICE_LABEL = f"{GROUP}/service"
REVISION_LABEL = f"{GROUP}/revision"
MANAGED_BY = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
OURS = f"app.kubernetes.io/managed-by={FIELD_MANAGER}"
"""Selects every object that the operator made, and its pods."""

JSON: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Namespace and name of an InferenceService."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of object and where the API server keeps it. `optional` kinds may be unknown to a cluster."""

    api_version: str
    kind: str
    plural: str
    optional: bool = False

    @property
    def group(self) -> str:
        """The API group, empty for the core one."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL's path of one object, of a namespace's, or of all."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")


INFERENCE_SERVICE = ResourceKind(API_VERSION, "InferenceService", "inferenceservices")
POD = ResourceKind("v1", "Pod", "pods")
EVENT = ResourceKind("v1", "Event", "events")
LEASE = ResourceKind("coordination.k8s.io/v1", "Lease", "leases")


def labels(service: InferenceServiceSpec) -> dict[str, str]:
    """The labels of everything that is made for a service."""
    return {
        "app.kubernetes.io/name": "inferenceservice",
        "app.kubernetes.io/instance": service.name,
        **MANAGED_BY,
        SERVICE_LABEL: service.name,
    }


def selector(service: InferenceServiceSpec) -> dict[str, str]:
    """What selects a service's pods. Immutable in a Deployment, so nothing in it ever changes."""
    return {SERVICE_LABEL: service.name}


def selector_text(service: InferenceServiceSpec) -> str:
    """The same as text, for the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in selector(service).items())


def owner_reference(service: InferenceServiceSpec) -> JSON:
    """Makes an object go with its InferenceService."""
    return {
        "apiVersion": API_VERSION,
        "kind": INFERENCE_SERVICE.kind,
        "name": service.name,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def child(
    kind: ResourceKind,
    service: InferenceServiceSpec,
    *,
    suffix: str = "",
    extra_labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> JSON:
    """The head of an object that is made for a service."""
    metadata: JSON = {
        "name": service.name + suffix,
        "namespace": service.namespace,
        "labels": {**(extra_labels or {}), **labels(service)},
        "ownerReferences": [owner_reference(service)],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def revision_name(service: InferenceServiceSpec) -> str:
    """The name of the frozen pod template of what the service asks for now."""
    return f"{service.name}-{service.fingerprint()}"


def key_of(body: Mapping[str, Any]) -> Key | None:
    """The InferenceService that a child or pod belongs to, by its label."""
    metadata = body.get("metadata", {})
    name = (metadata.get("labels") or {}).get(SERVICE_LABEL)
    return (metadata["namespace"], name) if name else None


def is_owned_by(body: Mapping[str, Any], uid: str) -> bool:
    """Whether the object's controller is the InferenceService with that uid."""
    references = body.get("metadata", {}).get("ownerReferences") or []
    return any(reference.get("uid") == uid and reference.get("controller") for reference in references)
