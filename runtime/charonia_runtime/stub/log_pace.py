"""How many log lines a model may write, so that one that writes without end slows nobody else down."""

LINES_PER_SECOND = 1000
BURST_LINES = 2000


class LogPace:
    """Admits `BURST_LINES` at once and `LINES_PER_SECOND` in the long run, and counts the rest. Times are seconds."""

    __slots__ = ("_allowance", "_last", "dropped")

    def __init__(self, now: float) -> None:
        self._allowance = float(BURST_LINES)
        self._last = now
        self.dropped = 0
        """Lines that were not admitted since `take_dropped`."""

    def admit(self, now: float) -> bool:
        """Whether a line may be written at `now`."""
        self._allowance = min(self._allowance + (now - self._last) * LINES_PER_SECOND, float(BURST_LINES))
        self._last = now
        if self._allowance < 1:
            self.dropped += 1
            return False
        self._allowance -= 1
        return True

    def take_dropped(self) -> int:
        """How many lines were dropped since this was asked last."""
        dropped, self.dropped = self.dropped, 0
        return dropped
