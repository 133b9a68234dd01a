"""What a client may do without sense: events that are cheap to cause are counted against a budget."""


class Budget:
    """A leaky bucket: so many events at once, so many more a second, and so many more for each piece of honest work."""

    __slots__ = ("_at", "_earned", "_per_second", "_size", "_spent", "_worth")

    def __init__(self, size: int, per_second: float, worth: int, now: float) -> None:
        self._size = size
        self._per_second = per_second
        self._worth = worth
        self._at = now
        self._spent = 0.0
        self._earned = 0

    def spend(self, now: float, earned: int, amount: int = 1) -> bool:
        """Count an event; False if it is one too many. `earned` is all the honest work that was ever done."""
        self._spent += amount
        if self._spent <= self._size:
            return True
        recovered = (now - self._at) * self._per_second + (earned - self._earned) * self._worth
        self._at = now
        self._earned = earned
        self._spent = max(float(amount), self._spent - recovered)
        return self._spent <= self._size
