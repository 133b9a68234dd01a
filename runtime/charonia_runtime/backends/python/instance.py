"""One instance of a Python model: batches go to its child in one message each, and a child that dies is replaced."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from charonia_runtime.backends.python.calls import StubCalls
from charonia_runtime.backends.python.output_check import OutputCheck
from charonia_runtime.backends.python.patience import Patience
from charonia_runtime.backends.python.readiness import Readiness
from charonia_runtime.backends.python.running import RunningBatch, RunningBatches
from charonia_runtime.backends.python.stub_process import StubProcess, unhealthy
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.ipc.channel import BlockingChannel, LoopChannel
from charonia_runtime.ipc.frames import Frame, FrameKind, encode_frame
from charonia_runtime.ipc.restarts import Backoff
from charonia_runtime.thread_pools import COPYING, RESTARTING, UNLOADING

logger = logging.getLogger(__name__)

_COPY_BYTES_ON_LOOP = 4 << 20
"""Inputs above this are copied in a thread: a millisecond of the event loop is everybody's millisecond."""
_END_SECONDS = 5.0
"""How long a child may take to end after `finalize`, for threads that the model left running."""

_STALL_SECONDS = 10.0
"""How long a child may leave a frame unfinished."""

Start = Callable[[], tuple[StubProcess, StubCalls]]
Done = Callable[[], None]


class Siblings:
    """What the instances of one model version share."""

    __slots__ = ("alive", "outputs")

    def __init__(self, outputs: OutputCheck) -> None:
        self.outputs = outputs
        self.alive: set[str] = set()
        """The names of those that have a child that runs."""


class PythonInstance:
    """
    See `core.backend.LoopInstance`. Made in a loader thread, used on the event loop.

    When the child dies, the requests that it ran fail and the instance takes no further batch until a new child runs;
    one that arrives nevertheless waits for it, unless no child of any instance runs and the last start has failed: then
    requests fail at once. Repeated deaths are answered with growing pauses, whatever the reason is. A child whose model
    is unloaded is killed when nothing is heard of it for `unload_seconds`; the requests that wait for it fail.
    """

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        start: Start,
        call_soon: Callable[..., object] | None,
        siblings: Siblings,
        *,
        unload_seconds: float = 0,
    ) -> None:
        self._siblings = siblings
        self._cannot_start = False
        self._name = name
        self._config = config
        self._start = start
        self._backoff = Backoff()
        self._closing = False
        self._ended: asyncio.Event | None = None
        self._finalized: asyncio.Event | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Batch, Done]] = []
        self._owed: list[Done] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._notice: int | None = None
        self._stub, self._calls = start()
        self._running = self._calls.caller = RunningBatches(name, config, self._stub, siblings.outputs)
        self._readiness = Readiness(name, self._stub)
        self._patience = Patience(unload_seconds, self._owes_answers, self._give_up)
        self._given_up = False
        self._alive = True
        siblings.alive.add(name)
        if call_soon is not None:
            call_soon(self._attach)

    @property
    def ready(self) -> bool:
        """Whether a child runs that can take requests."""
        return self._alive

    async def agrees(self) -> bool:
        return self._alive and await self._readiness.ask()

    def note_cancelled(self) -> None:
        self._stub.note_cancelled()

    def wind_up(self) -> None:
        self._patience.start()

    def begin(self, batch: Batch, done: Done, *, more: bool = False) -> None:
        if self._loop is None:
            self._attach()
        if self._given_up or (self._cannot_start and not self._siblings.alive):
            batch.fail(unhealthy(self._name))
            done()
            return
        if not self._alive:
            self._waiting.append((batch, done))
            return
        if more:
            self._stub.hold()
        running = self._running.add(batch, done)
        if not running.packer.copies:
            self._depart(running)
        elif running.packer.copied_bytes <= _COPY_BYTES_ON_LOOP:
            running.packer.copy()
            self._depart(running)
        else:
            depart = partial(self._depart, running)
            COPYING.start(running.packer.copy, lambda _: depart(), lambda _: depart(), size=running.packer.copied_bytes)
        if not more:
            self._stub.release()

    async def close(self) -> None:
        """`finalize` the model and end its child; a busy child is killed."""
        self._closing = True
        self.wind_up()
        if self._restarting is not None:
            self._restarting.cancel()
            with suppress(asyncio.CancelledError):
                await self._restarting
        if self._loop is None:
            self._attach()
        try:
            if self._alive and not self._running.busy:
                await self._finalize()
        finally:
            self._patience.stop()
            self._disconnect()
            await UNLOADING.run(self._stub.end)
            self._running.fail(unhealthy(self._name))
            self._release_waiting()

    # --- the child's life ---

    def _attach(self) -> None:
        """Take the channel over from the loader thread."""
        if self._loop is not None or not self._alive:
            return
        self._loop = loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._finalized = asyncio.Event()
        stub = self._stub
        self._notice = stub.open_death_notice()
        if self._notice is not None:
            loop.add_reader(self._notice, self._lost)
        channel = stub.channel
        if isinstance(channel, BlockingChannel):
            stub.attach(LoopChannel(channel, loop, self._received, self._lost, stall_seconds=_STALL_SECONDS))

    def _disconnect(self) -> None:
        if self._loop is not None and self._notice is not None:
            self._loop.remove_reader(self._notice)
            self._stub.close_death_notice(self._notice)
        self._notice = None
        if self._alive:
            self._alive = False
            self._siblings.alive.discard(self._name)
        if isinstance(self._stub.channel, LoopChannel):
            self._stub.channel.close()
        self._calls.close()
        self._readiness.close()

    async def _finalize(self) -> None:
        if self._finalized is None or self._ended is None:
            return
        self._stub.send(encode_frame(FrameKind.FINALIZE))
        waits = [asyncio.ensure_future(event.wait()) for event in (self._finalized, self._ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _END_SECONDS)
        finally:
            for wait in waits:
                wait.cancel()

    def _lost(self) -> None:
        """The child is dead, or as good as that."""
        if not self._alive:
            return
        self._disconnect()
        if self._ended is not None:
            self._ended.set()
        if self._closing:
            return
        end = self._stub.kill()
        if self._given_up:
            self._waiting += self._running.take_unstarted()
            self._owed += self._running.fail(unhealthy(self._name))
            self._release_waiting()
            return
        logger.error("%s: the stub process died (%s), it is started again", self._name, end)
        self._waiting += self._running.take_unstarted()
        self._owed += self._running.fail(unhealthy(self._name))
        self._backoff.died(time.monotonic() - self._stub.started)
        self._restarting = asyncio.ensure_future(self._restart())

    def _owes_answers(self) -> bool:
        """Whether the child can and must do something. While it waits for other models, they must."""
        return self._alive and (self._closing or self._running.owes) and not self._calls.waiting

    def _give_up(self) -> None:
        logger.error("%s: the model is unloaded and nothing is heard of the stub process, it is killed", self._name)
        self._given_up = True
        self._lost()

    async def _restart(self) -> None:
        while not self._closing:
            await asyncio.sleep(self._backoff.seconds)
            starting = asyncio.ensure_future(RESTARTING.run(self._start_anew))
            try:
                started = await asyncio.shield(starting)
                self._take_over(*started)
            except asyncio.CancelledError:
                starting.add_done_callback(_end_unwanted)
                raise
            except Exception as error:  # noqa: BLE001  # the instance would be dead for ever
                self._note_failed_start(error)
                continue
            break
        self._restarting = None
        waiting, self._waiting = self._waiting, []
        self._settle()
        for batch, done in waiting:
            self.begin(batch, done)

    def _start_anew(self) -> tuple[StubProcess, StubCalls]:
        self._stub.sweep()
        return self._start()

    def _take_over(self, stub: StubProcess, calls: StubCalls) -> None:
        """Use a new child. Raises OSError when the event loop cannot watch it; it is ended then."""
        self._stub, self._calls = stub, calls
        self._running = calls.caller = RunningBatches(self._name, self._config, stub, self._siblings.outputs)
        self._readiness = Readiness(self._name, stub)
        self._alive = True
        self._siblings.alive.add(self._name)
        self._loop = None
        try:
            self._attach()
        except BaseException:
            self._disconnect()
            stub.kill()
            raise
        self._cannot_start = False

    def _note_failed_start(self, error: Exception) -> None:
        text = error.message if isinstance(error, InferenceError) else f"{type(error).__name__}: {error}"
        self._backoff.failed()
        pause = self._backoff.seconds
        logger.error("%s: the stub process cannot be started, next try in %g s: %s", self._name, pause, text)
        self._cannot_start = True
        self._release_waiting()

    def _release_waiting(self) -> None:
        """Fail the batches that wait for a child: there is none."""
        waiting, self._waiting = self._waiting, []
        for batch, done in waiting:
            batch.fail(unhealthy(self._name))
            self._owed.append(done)
        self._settle()

    def _settle(self) -> None:
        """Tell the engine that the instance is free, where that was put off until a child runs."""
        owed, self._owed = self._owed, []
        for done in owed:
            done()

    # --- frames ---

    def _depart(self, running: RunningBatch) -> None:
        """Everything is in place: send the batch."""
        if running.batch.complete:
            self._running.finish(running)  # nothing of it could be sent, or the child died meanwhile
            return
        if self._stub.send(running.frame()):
            return
        self._running.forget(running)  # it died while it was idle: this batch has done nothing yet
        self._waiting.append((running.batch, running.done))
        self._lost()

    def _received(self, frame: Frame) -> None:
        self._patience.heard = True
        try:
            self._take(frame)
        except Exception:
            logger.exception("%s: the stub process sent a frame that makes no sense, it is killed", self._name)
            self._lost()

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.ANSWER:
                self._running.answer(frame)
            case FrameKind.RESPONSE:
                self._running.respond(frame)
            case FrameKind.FAILURE:
                self._running.fail_one(frame)
            case FrameKind.ABANDONED:
                self._running.abandon(frame)
            case FrameKind.IS_CANCELLED:
                self._running.tell_cancelled(frame)
            case FrameKind.READINESS:
                self._readiness.answered(frame)
            case FrameKind.ROOM:
                self._running.when_room(frame)
            case FrameKind.FINALIZED:
                if self._finalized is not None:
                    self._finalized.set()
            case _:
                if not self._stub.accept_segment(frame):
                    self._calls.serve(frame)


def _end_unwanted(starting: "asyncio.Future[tuple[StubProcess, StubCalls]]") -> None:
    """A child that came up after its instance was closed."""
    if not starting.cancelled() and starting.exception() is None:
        stub, calls = starting.result()
        calls.close()
        stub.kill()
