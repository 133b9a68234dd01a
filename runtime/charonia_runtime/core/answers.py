"""How many requests were answered, by protocol and status: counted by frontends, shown by the metrics endpoint."""

from collections import defaultdict
from collections.abc import Iterator, MutableMapping
from typing import TypeAlias

StatusCounts: TypeAlias = MutableMapping[int | str, int]
"""How often each status was answered: HTTP's numbers, gRPC's names. One that was not seen yet counts 0."""


class AnswerCounts:
    """The counts of one process. A frontend adds to the mapping of its protocol, which costs a request one step."""

    def __init__(self) -> None:
        self._counts: dict[str, StatusCounts] = {}

    def of(self, protocol: str) -> StatusCounts:
        """The counts of a protocol (`http`, `grpc`)."""
        return self._counts.setdefault(protocol, defaultdict(int))

    def __iter__(self) -> Iterator[tuple[str, int | str, int]]:
        """Protocol, status and count of all that was seen."""
        for protocol, counts in self._counts.items():
            for status in sorted(counts, key=str):
                yield protocol, status, counts[status]
