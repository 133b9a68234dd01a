"""Metrics that models define themselves: kept here, changed by backends, shown by the metrics endpoint."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.histogram import Histogram

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")


class MetricKind(Enum):
    """What a family's numbers may do; the value is the word after `# TYPE`."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class CustomMetric:
    """The number, or the histogram, of one set of labels. `users` counts the objects in models that stand for it."""

    __slots__ = ("histogram", "labels", "users", "value")

    def __init__(self, labels: Mapping[str, str], bounds: Sequence[float]) -> None:
        self.labels = labels
        self.histogram = Histogram(bounds)
        self.value = 0.0
        self.users = 0


class CustomFamily:
    """Metrics of one name. `users` counts the objects in models that stand for it."""

    __slots__ = ("description", "kind", "metrics", "name", "users")

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        self.name = name
        self.description = description
        self.kind = kind
        self.users = 0
        self.metrics: dict[tuple[tuple[str, str], ...], CustomMetric] = {}


class CustomMetrics:
    """
    Every custom family of a server. Used on the event loop's thread.

    Instances and models that name the same family, or the same labels in it, share it. What nobody uses any more is
    gone. Changes raise nothing: what a kind may do is checked where it is asked for.
    """

    def __init__(self) -> None:
        self._families: dict[str, CustomFamily] = {}

    def families(self) -> Iterable[CustomFamily]:
        """The families that exist, in the order they were made."""
        return self._families.values()

    def open_family(self, name: str, description: str, kind: MetricKind) -> CustomFamily:
        """The family of this name, made where there is none. Raises InvalidArgumentError for another kind."""
        family = self._families.get(name)
        if family is None:
            if not _NAME.match(name):
                raise InvalidArgumentError("Invalid metric name")
            family = self._families[name] = CustomFamily(name, description, kind)
        elif family.kind is not kind:
            raise InvalidArgumentError("Family name already exists with different type")
        family.users += 1
        return family

    def close_family(self, family: CustomFamily) -> None:
        family.users -= 1
        if family.users == 0 and self._families.get(family.name) is family:
            del self._families[family.name]

    def open_metric(self, family: CustomFamily, labels: Mapping[str, str], bounds: Sequence[float]) -> CustomMetric:
        """The family's metric of these labels. Raises InvalidArgumentError for bad labels or bounds."""
        if not all(_LABEL.match(name) for name in labels):
            raise InvalidArgumentError("Invalid label name")
        if any(low >= high for low, high in pairwise(bounds)):
            raise InvalidArgumentError("Bucket Boundaries must be strictly sorted")
        key = tuple(sorted(labels.items()))
        metric = family.metrics.get(key)
        if metric is None:
            metric = family.metrics[key] = CustomMetric(dict(labels), tuple(bounds))
        metric.users += 1
        return metric

    def close_metric(self, family: CustomFamily, metric: CustomMetric) -> None:
        metric.users -= 1
        if metric.users == 0:
            family.metrics.pop(tuple(sorted(metric.labels.items())), None)
