"""How long an instance's executions take: what decides how its requests are handed over."""

_HAND_OVER_NS = 200_000
"""What requests that are handed over together may take in all. A hop to a thread and back costs a quarter of it."""
_MOST_AT_ONCE = 16
_BRIEF_NS = 50_000
"""An execution below this costs less than the hop to its thread and back (tests/benchmarks/engine_hops.py)."""
_LONG_NS = 2_000_000
_EXECUTIONS_TO_FORGET_A_LONG_ONE = 1000
_WEIGHT = 8
"""The average's memory, in executions."""


class Pace:
    """A moving average of one instance's execution times. Starts out slow: briefness has to be shown."""

    __slots__ = ("_average_ns", "_wary_for")

    def __init__(self) -> None:
        self._average_ns = 10_000_000
        self._wary_for = 0

    def note(self, execution_ns: int) -> None:
        """Count one execution."""
        self._average_ns += (execution_ns - self._average_ns) // _WEIGHT
        if execution_ns > _LONG_NS:
            self._wary_for = _EXECUTIONS_TO_FORGET_A_LONG_ONE
        elif self._wary_for:
            self._wary_for -= 1

    @property
    def at_once(self) -> int:
        """How many executions are worth one hand-over; 1 for all but the briefest."""
        return max(1, min(_MOST_AT_ONCE, _HAND_OVER_NS // max(1, self._average_ns)))

    @property
    def brief(self) -> bool:
        """Whether executions take less than a hop to a thread, and no long one was seen lately."""
        return self._average_ns < _BRIEF_NS and not self._wary_for
