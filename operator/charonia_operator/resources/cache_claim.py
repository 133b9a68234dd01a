"""The claim that keeps a service's copies of its models, where a new one is asked for."""

from charonia_operator.naming import JSON, ResourceKind, child
from charonia_operator.pod.volumes import cache_claim_name
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """A claim for `cache.persistentVolumeClaim` without `claimName`, where models are copied."""
    repository = service.spec.model_repository
    if repository is None or not repository.is_synced or repository.cache.type != "PersistentVolumeClaim":
        return []
    claim = repository.cache.persistent_volume_claim
    if claim is None or claim.claim_name:
        return []
    built = child(RESOURCE, service)
    built["metadata"]["name"] = cache_claim_name(service)
    built["spec"] = {
        "accessModes": list(claim.access_modes),
        "resources": {"requests": {"storage": claim.size}},
    }
    if claim.storage_class_name:
        built["spec"]["storageClassName"] = claim.storage_class_name
    return [built]
