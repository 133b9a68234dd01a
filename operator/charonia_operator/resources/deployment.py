"""The Deployment that runs the service's pods."""

from charonia_operator.naming import JSON, ResourceKind, child, selector
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("apps/v1", "Deployment", "deployments")
_FEW_REPLICAS = 4


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """One Deployment; new pods come before old ones go."""
    deployment = child(RESOURCE, service)
    deployment["spec"] = {
        "replicas": service.replicas,
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": service.spec.probes.startup_timeout_seconds,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1 if service.replicas <= _FEW_REPLICAS else "25%", "maxUnavailable": 0},
        },
        "selector": {"matchLabels": selector(service)},
        "template": template,
    }
    return [deployment]
