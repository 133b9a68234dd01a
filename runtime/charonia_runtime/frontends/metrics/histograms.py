"""Histograms as samples."""

from collections.abc import Mapping
from itertools import accumulate

from prometheus_client import Metric

from charonia_runtime.core.histogram import Histogram
from charonia_runtime.frontends.metrics.exposition import number


def add_histogram(family: Metric, labels: Mapping[str, str], histogram: Histogram) -> None:
    """Append one series: how many, their sum, and how many are within each bound. The last bound is infinity."""
    counts = list(accumulate(histogram.counts))
    family.add_sample(f"{family.name}_count", dict(labels), counts[-1])
    family.add_sample(f"{family.name}_sum", dict(labels), histogram.sum)
    bounds = [*map(number, histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, counts, strict=True):
        family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
