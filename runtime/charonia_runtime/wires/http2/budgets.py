"""What a client may do without sense: events that are cheap to cause are counted against a budget."""


class Budget:
    """
    A leaky bucket: so many events at once, and so many more a second.

    `spent` is public because honest work lowers it where every call would count.
    """

    __slots__ = ("_at", "_per_second", "_size", "spent")

    def __init__(self, size: int, per_second: float, now: float) -> None:
        self._size = size
        self._per_second = per_second
        self._at = now
        self.spent = 0.0

    def spend(self, now: float) -> bool:
        """Count an event; False if it is one too many."""
        self.spent += 1
        if self.spent <= self._size:
            return True
        self.spent = max(1.0, self.spent - (now - self._at) * self._per_second)
        self._at = now
        return self.spent <= self._size
