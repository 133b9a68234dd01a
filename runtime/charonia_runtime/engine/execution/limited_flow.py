"""
Flows of models whose instances take turns with those of other models: `--rate-limit=execution_count`.

An instance is handed its batch when the rate limiter grants it a turn, and not before: what waits for a turn waits in
the queue, where batches grow and requests can still be cancelled or expire.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.engine.execution.flow import RequestFlow
from charonia_runtime.engine.execution.instance import Execution, Runner
from charonia_runtime.engine.execution.rate_limiter import Contender, RateLimiter, needs_of
from charonia_runtime.engine.execution.sequence_flow import SequenceFlow

if TYPE_CHECKING:
    _Flow = RequestFlow
else:
    _Flow = object


class _TurnTaking(_Flow):
    """What `RequestFlow` and its subclasses do differently when idle instances may not run yet."""

    def __init__(self, limiter: RateLimiter, *arguments: Any, **options: Any) -> None:
        """`limiter` is the server's one; what follows is as the other flow has it."""
        super().__init__(*arguments, **options)
        self._limiter = limiter
        self._contenders: dict[int, Contender] = {}

    @override
    def add(self, runners: Sequence[Runner]) -> None:
        for runner in runners:
            placement = runner.placement
            contender = Contender(needs_of(placement), partial(self._granted, runner), placement.priority)
            self._contenders[runner.slot] = contender
            self._limiter.add(contender)
        super().add(runners)

    @override
    def remove(self, runner: Runner) -> None:
        super().remove(runner)
        contender = self._contenders.get(runner.slot)
        if contender is not None:
            self._limiter.remove(contender)
            if not contender.holds:
                del self._contenders[runner.slot]

    @override
    def cancel(self, request: InferenceRequest) -> None:
        super().cancel(request)
        self._withdraw_if_done()

    @override
    def stop(self) -> None:
        super().stop()
        self._withdraw_if_done()
        self._limiter.serve()

    @override
    def finished(self, runner: Runner, executions: Sequence[Execution], *, free: bool) -> None:
        """The instance asks for its next turn before others get what it had: so ranks decide, not who came first."""
        contender = self._contenders.get(runner.slot) if free else None
        if contender is None:
            super().finished(runner, executions, free=free)
            return
        self._limiter.release(contender)
        if runner.retired:
            del self._contenders[runner.slot]
        super().finished(runner, executions, free=free)
        self._limiter.serve()

    @override
    def _turn(self) -> None:
        self._turn_comes = False
        self._dispatch(time.monotonic_ns())

    @override
    def _dispatch(self, now_ns: int) -> None:
        if self._scheduler.expires:
            self._expire(now_ns)
        if len(self._scheduler):
            for runner in self._free:
                self._limiter.ask(self._contenders[runner.slot])
        self._limiter.serve()
        self._withdraw_if_done()
        if len(self._scheduler):
            self._set_timer(now_ns)

    @override
    def _any_idle(self) -> bool:
        """An instance that waits for its turn is as good as busy: the limiter wakes it, not the clock."""
        return any(not self._contenders[runner.slot].waits for runner in self._free)

    def _granted(self, runner: Runner) -> bool:
        now_ns = time.monotonic_ns()
        if self._scheduler.expires:
            self._expire(now_ns)
        requests = self._next_batch(runner, now_ns)
        if requests:
            self._free.remove(runner)
            runner.begin([requests])
        self._withdraw_if_done()
        if len(self._scheduler):
            self._set_timer(now_ns)
        return bool(requests)

    def _withdraw_if_done(self) -> None:
        """Whoever has nothing to do must not keep others waiting."""
        if not len(self._scheduler):
            for runner in self._free:
                self._limiter.withdraw(self._contenders[runner.slot])


class LimitedFlow(_TurnTaking, RequestFlow):
    """See `RequestFlow`; its instances take turns."""


class LimitedSequenceFlow(_TurnTaking, SequenceFlow):
    """See `SequenceFlow`; its instances take turns."""

    @override
    def _dispatch(self, now_ns: int) -> None:
        super()._dispatch(now_ns)
        if self._vacated:
            self._tell_vacated()
