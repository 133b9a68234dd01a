"""The `process_*` families of Prometheus' clients: processor time, memory and descriptors of the server's process."""

from collections.abc import Sequence

from prometheus_client import Metric, ProcessCollector


class ProcessProbe:
    """What prometheus_client finds in /proc; nothing where there is none. Counters have their suffix."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)

    def __call__(self) -> Sequence[Metric]:
        families = list(self._collector.collect())
        for family in families:
            if family.type == "counter":
                family.name += "_total"
        return families
