"""The families that models define themselves (python-backend, `pb_utils.MetricFamily`)."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from charonia_runtime.core.custom_metrics import CustomMetrics, MetricKind
from charonia_runtime.frontends.metrics.histograms import add_histogram


class CustomCollector(Collector):
    """Yields what is in the server's registry of custom metrics, in the order that families were made."""

    def __init__(self, metrics: CustomMetrics) -> None:
        self._metrics = metrics

    @override
    def collect(self) -> Iterator[Metric]:
        for custom in list(self._metrics.families()):
            family = Metric(custom.name, custom.description, custom.kind.value)
            for metric in custom.metrics.values():
                if custom.kind is MetricKind.HISTOGRAM:
                    add_histogram(family, metric.labels, metric.histogram)
                else:
                    family.add_sample(custom.name, dict(metric.labels), metric.value)
            yield family
