"""The custom metrics that one child holds: its numbers for them, and their release when it is gone."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from charonia_runtime.core.custom_metrics import CustomFamily, CustomMetric, CustomMetrics, MetricKind
from charonia_runtime.core.errors import InternalError


class ModelMetrics:
    """Families and metrics by the numbers that the child knows them by."""

    def __init__(self, registry: CustomMetrics) -> None:
        self._registry = registry
        self._numbers = count(1)
        self._families: dict[int, CustomFamily] = {}
        self._metrics: dict[int, tuple[CustomFamily, CustomMetric]] = {}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the child waits for. Raises InferenceError."""
        match name:
            case "create_metric_family":
                family = self._registry.open_family(
                    arguments["name"], arguments["description"], MetricKind[arguments["kind"]]
                )
                number = next(self._numbers)
                self._families[number] = family
                return number
            case "create_metric":
                family = self._families[arguments["family"]]
                metric = self._registry.open_metric(family, arguments["labels"], arguments["buckets"])
                number = next(self._numbers)
                self._metrics[number] = (family, metric)
                return number
            case "metric_value":
                return self._metrics[arguments["metric"]][1].value
            case _:
                raise InternalError(f"unknown call '{name}'")

    def note(self, kind: str, notice: Mapping[str, Any]) -> None:
        """What the child does not wait for."""
        match kind:
            case "metric":
                self._change(notice)
            case "forget_metric":
                pair = self._metrics.pop(notice["metric"], None)
                if pair is not None:
                    self._registry.close_metric(*pair)
            case "forget_metric_family":
                family = self._families.pop(notice["family"], None)
                if family is not None:
                    self._registry.close_family(family)
            case _:
                pass

    def close(self) -> None:
        for pair in self._metrics.values():
            self._registry.close_metric(*pair)
        for family in self._families.values():
            self._registry.close_family(family)
        self._metrics.clear()
        self._families.clear()

    def _change(self, notice: Mapping[str, Any]) -> None:
        pair = self._metrics.get(notice["metric"])
        if pair is None:
            return
        metric, value = pair[1], float(notice["value"])
        match notice["change"]:
            case "increment":
                metric.value += value
            case "set":
                metric.value = value
            case "observe":
                metric.histogram.observe(value)
            case _:
                pass
