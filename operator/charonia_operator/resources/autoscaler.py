"""The HorizontalPodAutoscaler. It scales the InferenceService, whose `spec.replicas` the Deployment follows."""

from charonia_operator.naming import API_VERSION, INFERENCE_SERVICE, JSON, ResourceKind, child
from charonia_operator.settings import Settings
from charonia_operator.spec.scaling import Metric
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
_GPU_UTILIZATION = "nv_gpu_utilization"
"""Triton's metric, from 0 to 1; an adapter must offer it as a metric of pods."""


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """An autoscaler where one is asked for and pods are wanted."""
    scaling = service.spec.autoscaling
    if scaling is None or service.spec.suspend:
        return []
    built = child(RESOURCE, service)
    built["spec"] = {
        "scaleTargetRef": {"apiVersion": API_VERSION, "kind": INFERENCE_SERVICE.kind, "name": service.name},
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": [_metric(metric) for metric in scaling.metrics],
    }
    if scaling.behavior:
        built["spec"]["behavior"] = dict(scaling.behavior)
    return [built]


def _metric(metric: Metric) -> JSON:
    match metric.type:
        case "CPU" | "Memory":
            target: JSON = {"type": "Utilization", "averageUtilization": int(metric.target.number())}
            return {"type": "Resource", "resource": {"name": metric.type.lower(), "target": target}}
        case "GPUUtilization":
            percent = int(metric.target.number())
            return _of_pods(_GPU_UTILIZATION, "1" if percent == 100 else f"{percent * 10}m")
        case "Custom":
            return _of_pods(metric.name, metric.target)


def _of_pods(name: str, value: str) -> JSON:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}
