"""Autoscalers that have no metrics."""

from charonia_operator.reasons import Reason
from charonia_operator.remedies.rule import Rule, rule

_NO_METRICS = {Reason.METRICS_MISSING}

RULES: tuple[Rule, ...] = (
    rule(_NO_METRICS, r"missing request for (?P<what>\w+)",
         "Set spec.resources.requests.{what}: the autoscaler reckons in per cent of it."),
    rule(_NO_METRICS, r"custom metrics API|custom\.metrics|unable to get metric",
         "Install the adapter (custom.metrics.k8s.io) that offers the metric of spec.autoscaling.metrics."),
    rule(_NO_METRICS, r"resource metrics API|metrics\.k8s\.io",
         "Install metrics-server: metrics of the types CPU and Memory in spec.autoscaling.metrics come from it."),
)  # fmt: skip
