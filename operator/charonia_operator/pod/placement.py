"""Where the scheduler may put a pod."""

from copy import deepcopy
from typing import Any

from charonia_operator.naming import JSON, selector
from charonia_operator.pod.server import gpu_resources
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

_TOPOLOGY_KEYS = {"Host": "kubernetes.io/hostname", "Zone": "topology.kubernetes.io/zone"}


def placement(service: InferenceServiceSpec, settings: Settings) -> JSON:
    """The fields of the pod's spec that the scheduler reads."""
    scheduling = service.spec.scheduling
    gpus = gpu_resources(service.spec.gpu, settings)
    tainted = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in gpus]
    fields: JSON = {
        "nodeSelector": scheduling.node_selector,
        "tolerations": [*tainted, *(dict(each) for each in (*settings.tolerations, *scheduling.tolerations))],
        "affinity": _affinity(service, settings),
        "topologySpreadConstraints": _spread(service),
        "priorityClassName": scheduling.priority_class_name,
        "runtimeClassName": scheduling.runtime_class_name,
        "schedulerName": scheduling.scheduler_name,
    }
    return {name: value for name, value in fields.items() if value}


def _spread(service: InferenceServiceSpec) -> list[JSON]:
    scheduling = service.spec.scheduling
    given = [dict(each) for each in scheduling.topology_spread_constraints]
    if given or scheduling.spread == "None":
        return given
    return [
        {
            "maxSkew": 1,
            "topologyKey": _TOPOLOGY_KEYS[scheduling.spread],
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(service)},
        }
    ]


def _affinity(service: InferenceServiceSpec, settings: Settings) -> JSON:
    """The user's affinity, with each of its node terms narrowed to the GPUs that are asked for."""
    affinity: JSON = deepcopy(dict(service.spec.scheduling.affinity or {}))
    gpu = service.spec.gpu
    if gpu is None or not gpu.products:
        return affinity
    product = {"key": settings.gpu_product_label, "operator": "In", "values": list(gpu.products)}
    required: dict[str, Any] = affinity.setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]}
    )
    for term in required["nodeSelectorTerms"]:
        term["matchExpressions"] = [*term.get("matchExpressions", []), product]
    return affinity
