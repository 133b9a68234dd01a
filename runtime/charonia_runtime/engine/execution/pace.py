"""How long an instance's executions take: what decides how its requests are handed over."""

_HAND_OVER_NS = 200_000
"""What requests that are handed over together may take in all. A hop to a thread and back costs a quarter of it."""
_MOST_AT_ONCE = 16
_TURN_NS = 100_000
"""
Executions that take longer than this together are worth a hand-over, which they share.

The hop to a thread and back costs about half of it, with one request in flight (tests/benchmarks/engine_hops.py).
"""
_LONG_NS = 1_000_000
_LEAST_WARINESS = 1000
_MOST_WARINESS = 1 << 20


class Pace:
    """
    What about four of five executions of one instance stay below.

    Not an average: threads wait for the interpreter and for a core now and then, and one such wait would outweigh
    dozens of executions. Starts out slow: briefness has to be shown.
    """

    __slots__ = ("_usual_ns", "_wariness", "_wary_for")

    def __init__(self) -> None:
        self._usual_ns = 1_000_000
        self._wary_for = 0
        self._wariness = _LEAST_WARINESS

    def is_brief(self, executions: int) -> bool:
        """Whether so many executions may keep the event loop: brief ones, and none was long there lately."""
        return self._usual_ns * executions < _TURN_NS and not self._wary_for

    def note(self, execution_ns: int, *, on_loop: bool = False) -> None:
        """
        Count one execution; `on_loop` if it kept the event loop.

        Steps up are four times those down, which makes it the value that a fifth exceeds. One long execution on the
        loop keeps the next thousand off it, and each further one twice as many; brief ones make up for it slowly.
        """
        usual = self._usual_ns
        if execution_ns > usual:
            self._usual_ns = min(execution_ns, usual + (usual >> 2) + 1)
        else:
            self._usual_ns = max(execution_ns, usual - (usual >> 4))
        if self._wary_for:
            self._wary_for -= 1
        if not on_loop:
            return
        if execution_ns > _LONG_NS:
            self._wary_for = self._wariness
            self._wariness = min(2 * self._wariness, _MOST_WARINESS)
        elif self._wariness > _LEAST_WARINESS:
            self._wariness -= 1

    @property
    def at_once(self) -> int:
        """How many executions are worth one hand-over; 1 for all but the briefest."""
        return max(1, min(_MOST_AT_ONCE, _HAND_OVER_NS // max(1, self._usual_ns)))
