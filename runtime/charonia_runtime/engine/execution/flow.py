"""The way of requests through one model: checked, queued, handed to free instances, answered, counted."""

import asyncio
import logging
import time
from collections.abc import Sequence

from charonia_runtime.core.batch import Answers, Batch
from charonia_runtime.core.errors import CancelledError, InferenceError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.statistics import FailureReason, ModelStatistics
from charonia_runtime.engine.execution.admission import Admission
from charonia_runtime.engine.execution.failures import WINDOW_SECONDS, FailureLog
from charonia_runtime.engine.execution.instance import Execution, Runner
from charonia_runtime.engine.execution.ordering import ResponseOrder
from charonia_runtime.engine.execution.pace import ThreadUse
from charonia_runtime.engine.schedulers.base import Scheduler

logger = logging.getLogger(__name__)

_TURN_NS = 500_000
"""How long executions may keep the event loop in one of its turns."""


class RequestFlow:
    """
    Everything of a model that a request meets. Used on the event loop's thread.

    Every request that `submit` accepts is answered finally, exactly once.
    """

    def __init__(
        self,
        version: int,
        admission: Admission,
        scheduler: Scheduler,
        order: ResponseOrder | None,
        *,
        delay_scheduler: int = 0,
    ) -> None:
        """`delay_scheduler`: how many requests must wait before the first is scheduled (a hook for tests)."""
        self.statistics = ModelStatistics()
        self.in_flight = 0
        """Requests accepted and not finally answered."""
        self._version = version
        self._failures = FailureLog()
        self._admission = admission
        self._scheduler = scheduler
        self._order = order
        self._orders_arrivals = order is not None
        """Whether answers leave in the order in which requests arrived; a subclass may have its own."""
        self._loop = asyncio.get_running_loop()
        self._free: list[Runner] = []
        self._reserved: dict[int, asyncio.Future[None]] = {}
        self._turn_comes = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._held_for = delay_scheduler
        self._stopped = False
        self._drained: asyncio.Future[None] | None = None

    # --- requests ---

    def submit(self, request: InferenceRequest) -> None:
        """Check and queue a request. Raises InferenceError when it is refused; then nothing of it is left."""
        if self._stopped:
            raise UnavailableError(
                f"{request.error_prefix}Server is stopping, scheduler for model has stopped accepting new inference "
                "requests"
            )
        self._admission.check(request)
        request.arrival_ns = request.queued_ns = time.monotonic_ns()
        scheduler = self._scheduler
        scheduler.enqueue(request)
        self.in_flight += 1
        self.statistics.pending += 1
        if self._orders_arrivals and self._order is not None:
            self._order.add(request)
        if not self._turn_comes and (self._free or scheduler.expires):
            self._turn_comes = True
            self._loop.call_soon(self._turn)

    def cancel(self, request: InferenceRequest) -> None:
        """Answer a request that waits with CancelledError, flag one that runs."""
        request.cancelled = True
        if self._scheduler.cancel(request):
            self._refuse(request, CancelledError(""), FailureReason.CANCELED)

    async def execute(self, runner: Runner, requests: list[InferenceRequest]) -> None:
        """Past checks and queue, on an instance that was not added yet; returns when it is free again."""
        now_ns = time.monotonic_ns()
        for request in requests:
            request.arrival_ns = request.queued_ns = now_ns
            if self._order is not None:
                self._order.add(request)
        self.in_flight += len(requests)
        free = self._reserved[runner.slot] = self._loop.create_future()
        runner.begin([requests])
        await free

    async def drain(self) -> None:
        """Wait until every accepted request is answered."""
        while self.in_flight:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    @property
    def live_sequences(self) -> int:
        """Sequences that clients have begun and not ended."""
        return 0

    def end_sequences(self) -> None:
        """Begin no new sequences."""

    def stop(self) -> None:
        """Accept nothing more and refuse what waits."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for request in self._scheduler.drain():
            error = UnavailableError(f"{request.error_prefix}Server is stopping, the request was not executed")
            self._refuse(request, error, FailureReason.OTHER)

    # --- instances ---

    def add(self, runners: Sequence[Runner]) -> None:
        """Let these instances take requests."""
        self._free += runners
        self._dispatch(time.monotonic_ns())

    def relieve(self, runner: Runner) -> bool:  # noqa: ARG002 - nothing is, here
        """Bind this instance to nothing more; whether it may be removed now, or only when it is `vacated`."""
        return True

    async def vacated(self, runner: Runner) -> None:
        """Return when nothing is bound to this instance any more, which was relieved."""

    def remove(self, runner: Runner) -> None:
        """Give this instance no more requests; what it has been handed it still executes."""
        runner.retired = True
        if runner in self._free:
            self._free.remove(runner)

    def answered(self, batch: Batch, answers: Answers) -> None:
        """Deliver responses of a batch, counting the requests that they end."""
        statistics, order = self.statistics, self._order
        observer = statistics.observer
        times, end_ns = batch.times(), time.monotonic_ns()
        count = rows = total_ns = queue_ns = finals = 0
        failures: Answers = []
        for request, response in answers:
            if response.final:
                finals += 1
                if response.failed:
                    statistics.record_failure(end_ns - request.arrival_ns, FailureReason.BACKEND)
                    failures.append((request, response))
                else:
                    count += 1
                    rows += request.batch_size
                    total_ns += end_ns - request.arrival_ns
                    queue_ns += times.start - request.queued_ns
                    if observer is not None:
                        observer(request.arrival_ns, request.queued_ns, times)
                    if request.executed is not None:
                        request.executed(times)
            if order is None:
                _send(request, response)
            else:
                _send_in_order(order, request, response)
        if count:
            statistics.record_successes(count, rows, total_ns, queue_ns, times)
        if finals:
            self._end_requests(finals)
        if failures and self._failures.write(failures, end_ns):
            self._loop.call_later(WINDOW_SECONDS, self._failures.write_count)

    def finished(self, runner: Runner, executions: Sequence[Execution], *, free: bool) -> None:
        """Give a free instance its next batch before the answers of its last are delivered, so that they overlap."""
        for batch, _ in executions:
            runner.pace.note(batch.end_ns - batch.start_ns)
            self._count_execution(batch)
        if free:
            reserved = self._reserved.pop(runner.slot, None) if self._reserved else None
            if reserved is not None:
                _set_done(reserved)
            elif not runner.retired:
                self._free.append(runner)
                if len(self._scheduler):
                    self._dispatch(time.monotonic_ns())
        for batch, answers in executions:
            self.answered(batch, answers)

    def _execute_on_loop(self, runner: Runner, requests: list[InferenceRequest]) -> Execution:
        """Run a batch here and now, with an eye on what keeps the loop."""
        pace = runner.pace
        use = ThreadUse() if pace.is_watched else None
        execution = runner.execute(requests)
        batch = execution[0]
        took_ns = batch.end_ns - batch.start_ns
        pace.note(took_ns, on_loop=True, preempted=use is not None and use.was_preempted(took_ns))
        self._count_execution(batch)
        return execution

    def _count_execution(self, batch: Batch) -> None:
        self.statistics.record_execution(batch.rows, batch.times(), time.time_ns() // 1_000_000)

    # --- scheduling ---

    def _turn(self) -> None:
        """What arrived in the last turn of the loop may run together now."""
        self._turn_comes = False
        now_ns = time.monotonic_ns()
        runner = self._free[-1] if self._free else None
        if runner is not None and runner.at_hand and not self._held_for and runner.pace.is_brief:
            self._execute_here(runner, now_ns)
        else:
            self._dispatch(now_ns)

    def _execute_here(self, runner: Runner, now_ns: int) -> None:
        """Spare brief executions the hop to a thread and back."""
        if self._scheduler.expires:
            self._expire(now_ns)
        end_ns = now_ns + _TURN_NS
        while len(self._scheduler) and now_ns < end_ns and runner.pace.is_brief:
            requests = self._next_batch(runner, now_ns)
            if not requests:
                break
            batch, answers = self._execute_on_loop(runner, requests)
            self.answered(batch, answers)
            now_ns = batch.end_ns
        if not len(self._scheduler):
            return
        if self._scheduler.wake_at(idle=True) is not None:
            self._dispatch(now_ns)
        elif not self._turn_comes:
            self._turn_comes = True
            self._loop.call_soon(self._turn)

    def _dispatch(self, now_ns: int) -> None:
        """Hand free instances what the scheduler lets run; see to it that time alone brings us back where it must."""
        free = self._free
        if self._scheduler.expires:
            self._expire(now_ns)
        while free:
            batches = self._next_batches(free[-1], now_ns)
            if not batches:
                break
            free.pop().begin(batches)
        if len(self._scheduler):
            self._set_timer(now_ns)

    def _next_batch(self, runner: Runner, now_ns: int) -> list[InferenceRequest]:
        scheduler = self._scheduler
        if self._held_for:
            if len(scheduler) < self._held_for:
                return []
            self._held_for = 0
        requests = scheduler.next_batch(now_ns, runner.slot)
        self.statistics.pending -= len(requests)
        return requests

    def _next_batches(self, runner: Runner, now_ns: int) -> list[list[InferenceRequest]]:
        """One batch; several of them where each alone takes less than its hand-over, and none of them could grow."""
        requests = self._next_batch(runner, now_ns)
        if not requests:
            return []
        batches = [requests]
        scheduler = self._scheduler
        if not scheduler.collects and len(scheduler):
            share = min(runner.at_once, 1 + len(scheduler) // len(self._free))
            while len(batches) < share and (requests := self._next_batch(runner, now_ns)):
                batches.append(requests)
        return batches

    def _expire(self, now_ns: int) -> None:
        for rejection in self._scheduler.expire(now_ns):
            self._refuse(rejection.request, rejection.error, FailureReason.REJECTED)

    def _set_timer(self, now_ns: int) -> None:
        """One timer at a time. One that is too early is left: it costs less than setting it anew for each request."""
        wake_ns = self._scheduler.wake_at(idle=self._any_idle())
        if wake_ns is None:
            return
        if self._timer is not None:
            if self._timer_ns <= wake_ns:
                return
            self._timer.cancel()
        self._timer_ns = wake_ns
        # uvloop's timers know whole milliseconds and round: it is woken early, and takes turns for what is left.
        whole_ms = max(0, wake_ns - now_ns) // 1_000_000
        self._timer = self._loop.call_later(whole_ms / 1000, self._wake)

    def _any_idle(self) -> bool:
        """Whether a batch that becomes due could run at once."""
        return bool(self._free)

    def _wake(self) -> None:
        self._timer = None
        self._dispatch(time.monotonic_ns())

    # --- answers ---

    def _refuse(self, request: InferenceRequest, error: InferenceError, reason: FailureReason) -> None:
        """Answer a request that will not be executed."""
        self.statistics.pending -= 1
        self.statistics.record_failure(time.monotonic_ns() - request.arrival_ns, reason)
        response = InferenceResponse(request.model_name, self._version, request.id, error=error)
        if self._order is None:
            _send(request, response)
        else:
            _send_in_order(self._order, request, response)
        self._end_requests(1)

    def _end_requests(self, count: int) -> None:
        self.in_flight -= count
        if not self.in_flight and self._drained is not None:
            _set_done(self._drained)
            self._drained = None


def _send_in_order(order: ResponseOrder, request: InferenceRequest, response: InferenceResponse) -> None:
    for next_request, next_response in order.release(request, response):
        _send(next_request, next_response)


def _send(request: InferenceRequest, response: InferenceResponse) -> None:
    """A sink that breaks must not take the other requests of its batch along."""
    try:
        request.sink.send(response)
    except Exception:
        logger.exception("model '%s': delivering a response failed", request.model_name)


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
