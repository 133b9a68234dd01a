"""The way of requests through a model that keeps sequences: their instance, their states, their further steps."""

import asyncio
import time
from collections.abc import Sequence

from typing_extensions import override

from charonia_runtime.core.batch import Answers, Batch
from charonia_runtime.core.errors import CancelledError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.statistics import FailureReason
from charonia_runtime.engine.execution.admission import Admission
from charonia_runtime.engine.execution.flow import RequestFlow
from charonia_runtime.engine.execution.instance import Execution, Runner
from charonia_runtime.engine.execution.ordering import ResponseOrder
from charonia_runtime.engine.schedulers.sequence.direct import NullRequest
from charonia_runtime.engine.schedulers.sequence.scheduler import SequenceScheduler


class SequenceFlow(RequestFlow):
    """
    See `RequestFlow`. Every free instance is asked for its own sequences, and the scheduler is told of each execution
    before it decides on the next.
    """

    def __init__(
        self,
        version: int,
        admission: Admission,
        scheduler: SequenceScheduler,
        order: ResponseOrder | None,
        *,
        delay_scheduler: int = 0,
        delay_backlog: int = 0,
    ) -> None:
        """How many requests must wait in slots and in the backlog before the first runs (hooks for tests)."""
        super().__init__(version, admission, scheduler, order)
        self._orders_arrivals = False
        self._sequences = scheduler
        self._vacated = dict[int, asyncio.Future[None]]()
        scheduler.hold(delay_scheduler, delay_backlog)

    @override
    def cancel(self, request: InferenceRequest) -> None:
        super().cancel(request)
        self._come_again()

    @property
    @override
    def live_sequences(self) -> int:
        return self._sequences.live

    @override
    def end_sequences(self) -> None:
        self._sequences.begins = False

    @override
    def stop(self) -> None:
        super().stop()
        self._tell_vacated()

    @override
    def add(self, runners: Sequence[Runner]) -> None:
        now_ns = time.monotonic_ns()
        for runner in runners:
            self._sequences.add_instance(runner.slot, now_ns)
        super().add(runners)

    @override
    def relieve(self, runner: Runner) -> bool:
        self._sequences.retire_instance(runner.slot)
        return self._sequences.is_vacant(runner.slot)

    @override
    async def vacated(self, runner: Runner) -> None:
        if not self._sequences.is_vacant(runner.slot):
            vacated = self._vacated[runner.slot] = self._loop.create_future()
            await vacated

    @override
    def remove(self, runner: Runner) -> None:
        super().remove(runner)
        self._sequences.remove_instance(runner.slot)

    @override
    def answered(self, batch: Batch, answers: Answers) -> None:
        super().answered(batch, [answer for answer in answers if type(answer[0]) is not NullRequest])

    @override
    def finished(self, runner: Runner, executions: Sequence[Execution], *, free: bool) -> None:
        for batch, _ in executions:
            self._settle(runner, batch)
        super().finished(runner, executions, free=free)
        if self._vacated:
            self._tell_vacated()

    # --- scheduling ---

    @override
    def _turn(self) -> None:
        self._turn_comes = False
        self._dispatch(time.monotonic_ns())

    def _come_again(self) -> None:
        if not self._turn_comes:
            self._turn_comes = True
            self._loop.call_soon(self._turn)

    @override
    def _dispatch(self, now_ns: int) -> None:
        """Brief executions come last: what runs elsewhere then has begun already."""
        self._expire(now_ns)
        brief: list[tuple[Runner, list[InferenceRequest]]] = []
        for runner in list(self._free):
            requests = self._next_batch(runner, now_ns)
            if not requests:
                continue
            self._free.remove(runner)
            if runner.at_hand and runner.pace.is_brief:
                brief.append((runner, requests))
            else:
                runner.begin([requests])
        for runner, requests in brief:
            self._run_here(runner, requests)
        self._set_timer(now_ns)
        if self._vacated:
            self._tell_vacated()

    def _run_here(self, runner: Runner, requests: list[InferenceRequest]) -> None:
        batch, answers = self._execute_on_loop(runner, requests)
        self._settle(runner, batch)
        self._free.append(runner)
        if len(self._sequences):
            self._come_again()
        self.answered(batch, answers)

    @override
    def _next_batch(self, runner: Runner, now_ns: int) -> list[InferenceRequest]:
        requests = self._sequences.next_batch(now_ns, runner.slot)
        for request in requests:
            if type(request) is not NullRequest:
                self.statistics.pending -= 1
                if self._order is not None:
                    self._order.add(request)
        return requests

    @override
    def _expire(self, now_ns: int) -> None:
        for request, error in self._sequences.expire(now_ns):
            reason = FailureReason.CANCELED if isinstance(error, CancelledError) else FailureReason.REJECTED
            self._refuse(request, error, reason)

    def _tell_vacated(self) -> None:
        for slot, vacated in list(self._vacated.items()):
            if self._stopped or self._sequences.is_vacant(slot):
                del self._vacated[slot]
                vacated.set_result(None)

    # --- executions ---

    def _settle(self, runner: Runner, batch: Batch) -> None:
        """Tell the scheduler what an execution made of the sequences in it."""
        steps = [
            request for index in batch.rescheduled if type(request := batch.requests[index]) is not NullRequest
        ]  # fmt: skip
        if steps:
            self._count_steps(batch, steps)
        waiting = self._sequences.finish(runner.slot, time.monotonic_ns(), batch.states, batch.rescheduled)
        self.statistics.pending += len(waiting)
        known = {id(request) for request in waiting}
        for request in steps:
            if id(request) not in known:
                self._end(request)
            elif request.cancelled:
                self.cancel(request)

    def _count_steps(self, batch: Batch, steps: list[InferenceRequest]) -> None:
        """Each step of an iterative sequence counts as a success."""
        times = batch.times()
        self.statistics.record_successes(
            len(steps),
            sum([request.batch_size for request in steps]),
            sum([times.end - request.arrival_ns for request in steps]),
            sum([times.start - request.queued_ns for request in steps]),
            times,
        )

    def _end(self, request: InferenceRequest) -> None:
        """Answer a request that its model wants again but that cannot wait: in warm-ups, and when the model stops."""
        response = InferenceResponse(request.model_name, self._version, request.id, flag_only=True)
        if self._stopped:
            text = f"{request.error_prefix}Server is stopping, the request was not executed to its end"
            response = InferenceResponse(request.model_name, self._version, request.id, error=UnavailableError(text))
        request.sink.send(response)
        self._end_requests(1)
