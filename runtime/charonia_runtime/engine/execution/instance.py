"""Runs the instances of a model, one batch at a time each: in threads of their own, or driven from the event loop."""

import asyncio
import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Protocol, cast

from charonia_runtime.core.backend import BackendTraits, Instance, LoopInstance
from charonia_runtime.core.batch import Answers, Batch
from charonia_runtime.core.config import ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.engine.execution.answers import AnswerFinisher
from charonia_runtime.engine.execution.pace import Pace

logger = logging.getLogger(__name__)

_REPORT_AFTER_NS = 1_000_000

Execution = tuple[Batch, Answers]
"""A batch that was executed, and those of its answers that were not reported before."""


@dataclass(frozen=True, slots=True)
class Post:
    """Where an instance stands, and what it needs to know of its model."""

    placement: Placement
    slot: int
    """The instance's number, unique in its model."""
    config: ModelConfig
    version: int
    finisher: AnswerFinisher
    traits: BackendTraits


class Executions(Protocol):
    """Where a runner reports to. Called on the event loop's thread."""

    def answered(self, batch: Batch, answers: Answers) -> None:
        """Some responses of a batch are there, which may still run."""

    def finished(self, runner: "Runner", executions: Sequence[Execution], *, free: bool) -> None:
        """Batches were executed; the instance is `free` for others unless more of the same hand-over follow."""


class Runner(Protocol):
    """An instance and what runs it. Used on the event loop's thread."""

    placement: Placement
    slot: int
    retired: bool
    """Whether it shall be closed instead of getting another batch."""
    pace: Pace
    at_hand: bool
    """Whether `execute` works: the instance may run on the event loop's thread where that is quicker."""

    @property
    def ready(self) -> bool:
        """Whether the instance can run a batch now."""

    async def agrees(self) -> bool:
        """Whether the model itself says that the instance is ready; True where it has no say."""

    @property
    def at_once(self) -> int:
        """How many batches are worth handing over together."""

    def begin(self, batches: list[list[InferenceRequest]]) -> None:
        """Execute each of `batches`, one after the other, at most `at_once`. Only when free."""

    def execute(self, requests: list[InferenceRequest]) -> Execution:
        """Execute a batch here and now. Only when free and `at_hand`."""

    def note_cancelled(self) -> None:
        """A request that runs on an instance of the model was flagged as cancelled."""

    def wind_up(self) -> None:
        """Only what waits already will still be begun: what will never be answered may be given up."""

    async def close(self) -> None:
        """Finish the running batch and free the instance."""


class InstanceThread:
    """
    A thread that executes the batches of one blocking instance and wakes the event loop once a hand-over.

    Daemonic: a model that hangs must not keep the process.
    """

    def __init__(self, instance: Instance, post: Post, executions: Executions) -> None:
        self.placement = post.placement
        self.slot = post.slot
        self.retired = False
        self.pace = Pace()
        self.ready = True
        self.at_hand = post.traits.any_thread and _is_of_fixed_size(post.config)
        self._instance = instance
        self._config = post.config
        self._version = post.version
        self._finisher = post.finisher
        self._executions = executions
        self._batch: Batch | None = None
        self._inbox: SimpleQueue[list[list[InferenceRequest]] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self.begin: Callable[[list[list[InferenceRequest]]], None] = self._inbox.put
        threading.Thread(target=self._run, name=f"{post.placement.name}-v{post.version}", daemon=True).start()

    @property
    def at_once(self) -> int:
        return self.pace.at_once

    async def agrees(self) -> bool:
        return True

    def note_cancelled(self) -> None:
        """Whoever runs in this process looks at the flag itself."""

    def wind_up(self) -> None:
        """A thread cannot be ended from outside."""

    async def close(self) -> None:
        self._inbox.put(None)
        await self._closed

    def execute(self, requests: list[InferenceRequest]) -> Execution:
        batch = self._batch = Batch(self._config, self._version, requests, self._report)
        try:
            self._instance.execute(batch)
        except BaseException as error:  # noqa: BLE001 - whatever a model raises, SystemExit too, is its requests' answer
            fail_with(batch, error)
        self._batch = None
        complete(batch)
        answers = batch.take_answers()
        self._finisher.finish(answers)
        batch.mark_end()
        return batch, answers

    # --- in the thread ---

    def _run(self) -> None:
        while self._serve():
            pass
        try:
            self._instance.close()
        except Exception:
            logger.exception("%s: closing the instance failed", self.placement.name)
        self._call_loop(_resolve, self._closed)

    def _serve(self) -> bool:
        """One hand-over; a function of its own, so that no tensor outlives its answer while the thread waits."""
        batches = self._inbox.get()
        if batches is None:
            return False
        finished: list[Execution] = []
        begin_ns = time.monotonic_ns()
        last = len(batches) - 1
        for index, requests in enumerate(batches):
            finished.append(self.execute(requests))
            if index == last or finished[-1][0].end_ns - begin_ns > _REPORT_AFTER_NS:
                self._call_loop(self._report_finished, finished, index == last)
                finished = []
        return True

    def _report(self, answers: Answers) -> None:
        """Responses that leave while their batch still runs."""
        self._finisher.finish(answers)
        self._call_loop(self._executions.answered, self._batch, answers)

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop was closed over a model that hung: nobody waits for its answers any more.
            logger.debug("%s: finished after the server had stopped", self.placement.name)

    # --- back on the loop ---

    def _report_finished(self, finished: list[Execution], free: bool) -> None:
        self._executions.finished(self, finished, free=free)


class LoopRunner:
    """
    Drives an instance that runs elsewhere, without a thread. Some models may answer after they are free.

    The batches of a hand-over are begun together, so that whoever runs them is woken once for all of them.
    """

    def __init__(self, instance: LoopInstance, post: Post, executions: Executions) -> None:
        self.placement = post.placement
        self.slot = post.slot
        self.retired = False
        self.pace = Pace()
        self.at_hand = False
        self._instance = instance
        self._config = post.config
        self._version = post.version
        self._finisher = post.finisher
        self._executions = executions
        self._loop = asyncio.get_running_loop()
        self._model_pace = Pace()
        """How long the model takes, without the way there and back."""
        self._batches: dict[int, Batch] = {}
        self._answers_later = post.config.decoupled or post.traits.answers_later
        self._begun = 0
        self._beginning = False
        self._running: set[int] = set()
        self._done: list[int] = []
        self._last_end_ns = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def ready(self) -> bool:
        return self._instance.ready

    @property
    def at_once(self) -> int:
        """One where answers may come after the execution: its length says nothing then."""
        return 1 if self._config.decoupled else self._model_pace.at_once

    def begin(self, batches: list[list[InferenceRequest]]) -> None:
        first = self._begun + 1
        self._begun += len(batches)
        self._running.update(range(first, first + len(batches)))
        for number, requests in enumerate(batches, first):
            self._begin(number, requests, more=number < self._begun)

    def execute(self, requests: list[InferenceRequest]) -> Execution:  # noqa: ARG002 - never at hand
        raise InternalError("this instance does not run on the event loop's thread")

    async def agrees(self) -> bool:
        return await self._instance.agrees()

    def note_cancelled(self) -> None:
        self._instance.note_cancelled()

    def wind_up(self) -> None:
        self._instance.wind_up()

    async def close(self) -> None:
        self._instance.wind_up()
        if self._running or self._done:
            self._idle = self._loop.create_future()
            await self._idle
        await self._instance.close()
        for number, batch in list(self._batches.items()):
            complete(batch)
            self._report(number, batch.take_answers())

    def _begin(self, number: int, requests: list[InferenceRequest], *, more: bool) -> None:
        # The batch's callbacks know its number, not itself: a cycle would keep its tensors until the next collection.
        batch = Batch(self._config, self._version, requests, partial(self._report, number))
        self._batches[number] = batch
        done = partial(self._note_done, number)
        self._beginning = True
        try:
            self._instance.begin(batch, done, more=more)
        except Exception as error:  # noqa: BLE001 - a backend's fault is its requests' answer
            fail_with(batch, error)
            done()
        self._beginning = False

    def _note_done(self, number: int) -> None:
        """
        Report the execution; those that end in the same turn of the loop together, once this turn is over.

        Nor at once while `begin` runs: an instance that is done before it returns would have us call ourselves without
        end.
        """
        if number not in self._running:
            return
        self._running.remove(number)
        self._done.append(number)
        if len(self._done) > 1:
            return
        if self._running or self._beginning:
            self._loop.call_soon(self._report_done)
        else:
            self._report_done()

    def _report_done(self) -> None:
        done, self._done = self._done, []
        executions = [self._finish(number) for number in done]
        free = not self._running
        if free and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        self._executions.finished(self, executions, free=free)

    def _finish(self, number: int) -> Execution:
        batch = self._batches[number]
        if not self._answers_later:
            complete(batch)
        batch.mark_end()
        self._note_times(batch)
        answers = batch.take_answers()
        self._finisher.finish(answers)
        if batch.complete:
            del self._batches[number]
        return batch, answers

    def _note_times(self, batch: Batch) -> None:
        """A batch that came with others has waited for those before it."""
        if batch.inputs_ready_ns and batch.outputs_ready_ns:
            batch.start_ns = max(batch.start_ns, min(self._last_end_ns, batch.inputs_ready_ns))
            self._last_end_ns = batch.outputs_ready_ns
            self._model_pace.note(batch.outputs_ready_ns - batch.inputs_ready_ns)
        else:
            self._model_pace.note(batch.end_ns - batch.start_ns)

    def _report(self, number: int, answers: Answers) -> None:
        batch = self._batches[number]
        self._finisher.finish(answers)
        if batch.complete and number not in self._running and number not in self._done:
            del self._batches[number]
        self._executions.answered(batch, answers)


def make_runner(instance: Instance | LoopInstance, post: Post, executions: Executions) -> Runner:
    """What drives `instance`, by its backend's traits."""
    if post.traits.on_event_loop:
        return LoopRunner(cast("LoopInstance", instance), post, executions)
    return InstanceThread(cast("Instance", instance), post, executions)


def fail_with(batch: Batch, error: BaseException) -> None:
    """Answer what is left of the batch with what its execution raised. Only the log sees a traceback."""
    if isinstance(error, InferenceError):
        batch.fail(error)
        return
    failure = InternalError(str(error) or type(error).__name__)
    failure.traceback_text = "".join(traceback.format_exception(error)).rstrip()
    batch.fail(failure)


def complete(batch: Batch) -> None:
    """Answer the requests that the instance forgot."""
    if not batch.complete:
        batch.fail(InternalError("expected a single response, got 0"))


def _is_of_fixed_size(config: ModelConfig) -> bool:
    """Whether no request can make an execution take much longer than others of as many rows, nor answer for long."""
    return not config.decoupled and all(
        spec.datatype is not DataType.BYTES and -1 not in spec.dims for spec in config.inputs
    )


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
