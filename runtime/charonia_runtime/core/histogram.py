"""Numbers counted in buckets."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """
    How many numbers fell into each bucket, and their sum.

    `bounds` are the buckets' upper ends, ascending and inclusive; `counts` has one entry more, for what is above all.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def __add__(self, other: "Histogram") -> "Histogram":
        """Both together; where their bounds differ, `other` alone: numbers cannot change their bucket."""
        total = Histogram(other.bounds)
        counts = self.counts if self.bounds == other.bounds else [0] * len(other.counts)
        total.counts = [mine + theirs for mine, theirs in zip(counts, other.counts, strict=True)]
        total.sum = other.sum + (self.sum if self.bounds == other.bounds else 0.0)
        return total
