"""
Threads for what would block the event loop: one limited pool for each kind of work, so that no kind waits for another.

The threads are daemons: one that never returns keeps neither the process alive nor a pool's neighbours waiting.
"""

import asyncio
import heapq
import itertools
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from charonia_runtime.core.errors import InferenceError, without_traceback

Result = TypeVar("Result")

LARGE_BYTES: Final = 1 << 20
"""A call of more bytes is large: it never takes the last thread of its pool, so that small ones never wait for it."""


class PooledCall(Generic[Result]):
    """A call that waits for a thread or runs in one. `cancel` lets it end unheard; one that waits is not begun."""

    __slots__ = ("_call", "_fail", "_go_on", "_loop")

    def __init__(
        self, call: Callable[[], Result], go_on: Callable[[Result], object], fail: Callable[[Exception], object]
    ) -> None:
        self._call: Callable[[], Result] | None = call
        self._go_on: Callable[[Result], object] | None = go_on
        self._fail: Callable[[Exception], object] | None = fail
        self._loop = asyncio.get_running_loop()

    def cancel(self) -> None:
        """Used on the event loop. Neither of the callbacks is called any more."""
        self._call = self._go_on = self._fail = None

    def run(self) -> None:
        """Make the call in this thread, and have the event loop continue."""
        call, self._call = self._call, None
        if call is None:
            return
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 the thread's outermost boundary
            del call  # the error may be kept, and with it this frame
            self._schedule(self._failed, _freed(error))
        else:
            self._schedule(self._done, result)

    def _schedule(self, continuation: Callable[[Any], None], outcome: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(continuation, outcome)

    def _done(self, result: Result) -> None:
        go_on = self._go_on
        self.cancel()
        if go_on is not None:
            go_on(result)

    def _failed(self, error: Exception) -> None:
        fail = self._fail
        self.cancel()
        if fail is not None:
            fail(error)


class ThreadPool:
    """
    At most `threads` threads, started as they are needed. Small calls run before large ones, else first come first.

    `start` and `run` are used on a running event loop.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads = threads
        self._started = 0
        self._idle = 0
        self._large = 0
        """Large calls that run."""
        self._waiting: list[tuple[int, int, PooledCall[Any]]] = []
        """A heap: size, turn, call."""
        self._turns = itertools.count()
        self._changed = threading.Condition()

    def start(
        self,
        call: Callable[[], Result],
        go_on: Callable[[Result], object],
        fail: Callable[[Exception], object],
        *,
        size: int = 0,
    ) -> PooledCall[Result]:
        """
        Make the call in a thread; then `go_on` gets its result, or `fail` its error, on the event loop.

        `size` is how many bytes the call deals with, as far as that is known. Errors come without their
        tracebacks; that of an exception which is no InferenceError is in its notes.
        """
        pooled = PooledCall(call, go_on, fail)
        with self._changed:
            heapq.heappush(self._waiting, (size, next(self._turns), pooled))
            if len(self._waiting) > self._idle and self._started < self._threads:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
            self._changed.notify()
        return pooled

    async def run(self, call: Callable[[], Result], *, size: int = 0) -> Result:
        """Return what the call returns, or raise what it raises. If the caller is cancelled, the call ends unheard."""
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        pooled = self.start(
            call,
            partial(_succeed, outcome),
            partial(_fail, outcome),
            size=size,
        )
        try:
            return await outcome
        finally:
            pooled.cancel()
            del outcome  # it keeps the exception, which keeps this frame

    def _work(self) -> None:
        while True:
            size, pooled = self._take()
            pooled.run()
            del pooled
            if size > LARGE_BYTES:
                with self._changed:
                    self._large -= 1
                    self._changed.notify()

    def _take(self) -> tuple[int, PooledCall[Any]]:
        with self._changed:
            while not self._may_begin():
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            size, _, pooled = heapq.heappop(self._waiting)
            self._large += size > LARGE_BYTES
            return size, pooled

    def _may_begin(self) -> bool:
        """Whether the next call may run now. The heap's first is large only when all are."""
        if not self._waiting:
            return False
        return self._waiting[0][0] <= LARGE_BYTES or self._large < max(self._threads - 1, 1)


def _succeed(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _freed(error: Exception) -> Exception:
    """The error, without its traceback. That of a defect is in its notes then."""
    if not isinstance(error, InferenceError):
        error.add_note("".join(traceback.format_exception(error)))
    return without_traceback(error)


LOADING: Final = ThreadPool("charonia-load", 16)
"""Loads models and makes their instances, for as long as their own code takes."""
UNLOADING: Final = ThreadPool("charonia-unload", 16)
"""Closes models and kills their processes."""
RESTARTING: Final = ThreadPool("charonia-restart", 32)
"""Starts the processes of models again that died; one call for each instance at most."""
CODING: Final = ThreadPool("charonia-code", 3)
"""Decompresses and parses requests, compresses answers. Few threads: each has one large body in memory at most."""
COPYING: Final = ThreadPool("charonia-copy", 3)
"""Copies and digests large tensors."""
