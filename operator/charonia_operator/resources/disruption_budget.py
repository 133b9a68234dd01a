"""The PodDisruptionBudget: how many pods a drain of nodes may take at once."""

from charonia_operator.naming import JSON, ResourceKind, child, selector
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """A budget where more than one pod is wanted: with a single one it would only block drains."""
    disruption, scaling = service.spec.disruption, service.spec.autoscaling
    least = max(service.replicas, scaling.min_replicas if scaling and not service.spec.suspend else 0)
    if disruption.mode == "Disabled" or least <= 1:
        return []
    built = child(RESOURCE, service)
    built["spec"] = {"selector": {"matchLabels": selector(service)}}
    if disruption.min_available is not None:
        built["spec"]["minAvailable"] = disruption.min_available.json()
    else:
        built["spec"]["maxUnavailable"] = disruption.max_unavailable.json() if disruption.max_unavailable else 1
    return [built]
