"""The metrics that the autoscaler goes by, as the API server wants them."""

import pytest

from charonia_operator.resources import autoscaler
from tests.support.inference_services import SETTINGS, a_service


def of_pods(name, value):
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def resource(name, percent):
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


@pytest.mark.parametrize(
    ("metric", "built"),
    [
        ({"type": "CPU", "target": 70}, resource("cpu", 70)),
        ({"type": "Memory", "target": 80}, resource("memory", 80)),
        ({"type": "GPUUtilization", "target": 100}, of_pods("nv_gpu_utilization", "1")),
        ({"type": "GPUUtilization", "target": 75}, of_pods("nv_gpu_utilization", "750m")),
        ({"type": "Custom", "name": "queue", "target": "500m"}, of_pods("queue", "500m")),
    ],
)
def test_a_metric(metric, built):
    service = a_service(autoscaling={"minReplicas": 2, "maxReplicas": 5, "metrics": [metric]})

    (made,) = autoscaler.build(service, SETTINGS, {})

    assert made["spec"] == {
        "scaleTargetRef": {
            "apiVersion": "serving.charonia.dev/v1alpha1",
            "kind": "InferenceService",
            "name": "simple",
        },
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [built],
    }


CPU = {"minReplicas": 1, "maxReplicas": 2, "metrics": [{"type": "CPU", "target": 70}]}


@pytest.mark.parametrize("spec", [{}, {"autoscaling": CPU, "suspend": True}])
def test_no_autoscaler(spec):
    assert autoscaler.build(a_service(**spec), SETTINGS, {}) == []


def test_behavior_is_handed_on():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    service = a_service(autoscaling={**CPU, "behavior": behavior})

    assert autoscaler.build(service, SETTINGS, {})[0]["spec"]["behavior"] == behavior
