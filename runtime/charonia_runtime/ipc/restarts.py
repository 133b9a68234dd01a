"""How long to wait before a child that died is started again."""

_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 5.0
_HEALTHY_SECONDS = 10.0


class Backoff:
    """No pause after a child that lived a while; then pauses that double with each child that did not."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """The pause before the next start."""
        self._deaths = 0

    def died(self, lived_seconds: float) -> None:
        """A child that had started died after `lived_seconds`."""
        self._deaths = 0 if lived_seconds >= _HEALTHY_SECONDS else self._deaths + 1
        self.seconds = 0.0 if self._deaths <= 1 else min(_FIRST_SECONDS * 2 ** (self._deaths - 2), _LONGEST_SECONDS)

    def failed(self) -> None:
        """A child did not even start."""
        self._deaths += 1
        self.seconds = min(max(self.seconds * 2, _FIRST_SECONDS), _LONGEST_SECONDS)
