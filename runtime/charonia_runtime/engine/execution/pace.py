"""How long an instance's executions take: what decides how its requests are handed over."""

from resource import RUSAGE_THREAD, getrusage

_HAND_OVER_NS = 200_000
"""What requests that are handed over together may take in all. A hop to a thread and back costs a quarter of it."""
_MOST_AT_ONCE = 16
_BRIEF_NS = 100_000
"""
Executions that take longer than this are worth a hand-over.

The hop to a thread and back costs about half of it with one request in flight (tests/benchmarks/engine_hops.py). With
many in flight both threads wait for the interpreter.
"""
_LONG_NS = 1_000_000
_WATCHED = 1000
"""For how many executions it is examined what keeps them, after one that was long on the event loop."""
_LEAST_WARINESS = 1000
_MOST_WARINESS = 1 << 20


class Pace:
    """
    What about four of five executions of one instance stay below.

    Not an average: threads wait for the interpreter and for a core now and then, and one such wait would outweigh
    dozens of executions. Starts out slow: briefness has to be shown.
    """

    __slots__ = ("_usual_ns", "_wariness", "_wary_for", "_watched_for")

    def __init__(self) -> None:
        self._usual_ns = 1_000_000
        self._wary_for = 0
        self._watched_for = 0
        self._wariness = _LEAST_WARINESS

    @property
    def is_brief(self) -> bool:
        """Whether executions may keep the event loop: they are brief, and none was long there lately."""
        return self._usual_ns < _BRIEF_NS and not self._wary_for

    @property
    def is_watched(self) -> bool:
        """Whether `note` should be told what kept an execution on the loop: one was long lately."""
        return self._watched_for > 0

    def note(self, execution_ns: int, *, on_loop: bool = False, preempted: bool = False) -> None:
        """
        Count one execution; `on_loop` if it kept the event loop, `preempted` if other processes kept it more than it
        did itself.

        Steps up are four times those down, which makes it the value that a fifth exceeds. After one long execution on
        the loop the next thousand are watched. Another one by the model's own fault keeps the next thousand off the
        loop, and each further one twice as many; brief ones make up for it slowly.
        """
        usual = self._usual_ns
        if execution_ns > usual:
            self._usual_ns = min(execution_ns, usual + (usual >> 2) + 1)
        else:
            self._usual_ns = max(execution_ns, usual - (usual >> 4))
        if self._wary_for:
            self._wary_for -= 1
        if on_loop:
            self._judge(execution_ns > _LONG_NS, preempted)

    def _judge(self, long: bool, preempted: bool) -> None:
        watched = self._watched_for
        if long:
            self._watched_for = _WATCHED
            if watched and not preempted:
                self._wary_for = self._wariness
                self._wariness = min(2 * self._wariness, _MOST_WARINESS)
            return
        if watched:
            self._watched_for -= 1
        if self._wariness > _LEAST_WARINESS:
            self._wariness -= 1

    @property
    def at_once(self) -> int:
        """How many executions are worth one hand-over; 1 for all but the briefest."""
        return max(1, min(_MOST_AT_ONCE, _HAND_OVER_NS // max(1, self._usual_ns)))


class ThreadUse:
    """What this thread has had of its core up to now."""

    __slots__ = ("_use",)

    def __init__(self) -> None:
        self._use = getrusage(RUSAGE_THREAD)

    def was_preempted(self, elapsed_ns: int) -> bool:
        """Whether the thread, never waiting for anything, was without its core for most of the time since then."""
        before, now = self._use, getrusage(RUSAGE_THREAD)
        seconds = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        return now.ru_nvcsw == before.ru_nvcsw and seconds * 2e9 < elapsed_ns
