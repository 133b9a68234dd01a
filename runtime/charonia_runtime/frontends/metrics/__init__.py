"""
Prometheus metrics on a port of their own, with Triton's names, labels and numbers.

Belongs here: the text format, the catalogue of families, the gauges of the machine, the little HTTP that serves them.
Does not: counting. What models did is counted once, in `core.statistics`, and read when somebody asks.
"""

from charonia_runtime.frontends.metrics.frontend import Frontend
from charonia_runtime.frontends.metrics.options import Options

__all__ = ["Frontend", "Options"]
