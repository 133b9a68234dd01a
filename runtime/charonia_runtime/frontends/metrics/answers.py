"""The counter of answered requests by protocol and status."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from charonia_runtime.core.answers import AnswerCounts

_NAME = "charonia_requests_total"


class AnswerCollector(Collector):
    """Yields one series for each protocol and status that was answered."""

    def __init__(self, answers: AnswerCounts) -> None:
        self._answers = answers

    @override
    def collect(self) -> Iterator[Metric]:
        family = Metric(_NAME, "Requests answered, by protocol and by the status of HTTP or gRPC", "counter")
        for protocol, status, count in self._answers:
            family.add_sample(_NAME, {"protocol": protocol, "code": str(status)}, count)
        yield family
