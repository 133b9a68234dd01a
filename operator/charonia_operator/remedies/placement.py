"""Pods that find no node, or that a quota or an admission rule does not let in."""

from re import Match

from charonia_operator.reasons import Reason
from charonia_operator.remedies.rule import Rule, rule
from charonia_operator.spec.service import InferenceServiceSpec

_WAITS = {Reason.UNSCHEDULABLE, Reason.INSUFFICIENT_GPU}
_REFUSED = {Reason.FORBIDDEN}


def _too_few_gpus(service: InferenceServiceSpec, found: Match[str]) -> str:
    gpu = service.spec.gpu
    field = "spec.gpu.migProfile" if gpu and gpu.mig_profile else "spec.gpu.count"
    return f"Free {found['resource']} on a node, add nodes, or change {field}."


def _no_such_product(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    gpu = service.spec.gpu
    if gpu is None or not gpu.products:
        return ""
    products = ", ".join(gpu.products)
    return f"No node has a GPU of {products}: correct spec.gpu.products (kubectl get nodes -L nvidia.com/gpu.product)."


def _no_fitting_node(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    scheduling = service.spec.scheduling
    field = "nodeSelector" if scheduling.node_selector else "affinity"
    return f"Correct spec.scheduling.{field}, or label a node so (kubectl get nodes --show-labels)."


RULES: tuple[Rule, ...] = (
    rule(_WAITS, r"insufficient (?P<resource>[^\s,]*(gpu|nvidia\.com/mig-)[^\s,]*?)\.?(?=[\s,]|$)", _too_few_gpus,
         Reason.INSUFFICIENT_GPU),
    rule(_WAITS, r"didn't match Pod's node affinity", _no_such_product, Reason.GPU_PRODUCT_MISSING),
    rule(_WAITS, r"didn't match Pod's node affinity", _no_fitting_node),
    rule(_WAITS, r"insufficient (?P<resource>cpu|memory|ephemeral-storage)",
         "Lower spec.resources.requests.{resource}, free it on a node, or add nodes."),
    rule(_WAITS, r"untolerated taint (?P<taint>\{[^}]*\})",
         "Tolerate the taint {taint} in spec.scheduling.tolerations, or add nodes without it."),
    rule(_WAITS, r"volume node affinity conflict",
         "The claim's volume is in another zone: correct spec.scheduling, or use a claim of the nodes' zone."),
    rule(_REFUSED, r"exceeded quota: (?P<quota>[^\s,]+)",
         "Raise ResourceQuota {quota} of the namespace, or lower spec.resources, spec.gpu.count or spec.replicas.",
         Reason.QUOTA_EXCEEDED),
    rule(_REFUSED, r"failed quota: (?P<quota>[^\s:]+): must specify (?P<what>[^:;]+?)( for|;|$)",
         "Set {what} in spec.resources: ResourceQuota {quota} asks for it.", Reason.QUOTA_EXCEEDED),
    rule(_REFUSED, r"violates PodSecurity",
         "Take what the message names out of spec.podTemplate, or let the namespace's pod-security labels admit it.",
         Reason.POD_SECURITY),
    rule(_REFUSED, r'serviceaccount "(?P<name>[^"]+)" not found',
         "Create ServiceAccount {name}, or correct spec.serviceAccountName.", Reason.SERVICE_ACCOUNT_MISSING),
    rule(_REFUSED, r"no PriorityClass with name (?P<name>\S+) was found",
         "Create PriorityClass {name}, or correct spec.scheduling.priorityClassName.", Reason.PRIORITY_CLASS_MISSING),
    rule(_REFUSED, r'RuntimeClass "(?P<name>[^"]+)" not found',
         "Create RuntimeClass {name}, or correct spec.scheduling.runtimeClassName.", Reason.RUNTIME_CLASS_MISSING),
    rule(_REFUSED, r"(maximum|minimum) (?P<what>\S+) usage per",
         "Change {what} in spec.resources: a LimitRange of the namespace sets the bounds."),
    rule(_REFUSED, r'admission webhook "(?P<name>[^"]+)" denied',
         "Change what admission webhook {name} objects to, or the rule behind it."),
)  # fmt: skip
