"""The engine's part of a graceful stop: requests in flight finish, models unload, within a time."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from charonia_runtime.core.errors import InternalError
from charonia_runtime.engine.lifecycle.loading import ModelLoader

logger = logging.getLogger(__name__)

_EXPIRED = "Exit timeout expired. Exiting immediately."
_REPORT_SECONDS = 1.0
_LOOK_SECONDS = 0.02
"""How often it is looked whether the last sequence is over."""


async def finish_sequences(loader: ModelLoader, timeout_seconds: float) -> None:
    """
    Let models begin no new sequences, and wait until those that live have ended or have been silent for too long.

    Logs each second what is in flight. Sequences that are left when the time is over are left.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout_seconds
    for copy in loader.copies:
        copy.end_sequences()
    said = 0.0
    while (live := sum(copy.live_sequences for copy in loader.copies)) and clock() < deadline:
        if clock() >= said + _REPORT_SECONDS:
            said = clock()
            _report_in_flight(loader, round(deadline - said))
        await asyncio.sleep(_LOOK_SECONDS)
    if live:
        logger.warning("%d live sequences are cut off", live)


async def stop_models(loader: ModelLoader, timeout_seconds: float) -> None:
    """
    Wait until nothing is in flight, then unload everything. New requests must be refused already.

    Says each second what it waits for. Raises InternalError when the time is over; what is left is left as it is.
    """
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    logger.info("Waiting for in-flight requests to complete.")
    await _within(deadline, _nothing_in_flight(loader), lambda left: _report_in_flight(loader, left))
    logger.info("All models are stopped, unloading models")
    await _within(deadline, loader.unload_all(), lambda left: _report_live(loader, left))


async def close_within(timeout_seconds: float, what: str, close: Callable[[], None]) -> None:
    """
    Run `close`, which blocks, in a thread that does not keep the process alive; return when the time is over at last.

    `what` is lost then, or when it raises, and the log says so.
    """
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            close()
        except Exception:
            logger.exception("%s are lost", what)
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is gone
            loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=run, name="close", daemon=True).start()
    try:
        await asyncio.wait_for(closed.wait(), timeout_seconds)
    except TimeoutError:
        logger.error("%s are lost: there is no time left to wait for them", what)  # noqa: TRY400 - the time says it all


async def _nothing_in_flight(loader: ModelLoader) -> None:
    """A model that calls others while it drains puts requests in flight elsewhere: look again until there is none."""
    while any(copy.in_flight for copy in loader.copies):
        await asyncio.gather(*(copy.drain() for copy in loader.copies))


async def _within(deadline: float, work: Coroutine[Any, Any, None], report: Callable[[int], None]) -> None:
    clock = asyncio.get_running_loop().time
    task = asyncio.create_task(work)
    while not task.done():
        left = deadline - clock()
        report(max(round(left), 0))
        if left <= 0:
            task.cancel()
            logger.error(_EXPIRED)
            raise InternalError(_EXPIRED)
        await asyncio.wait({task}, timeout=min(_REPORT_SECONDS, left))
    await task


def _report_in_flight(loader: ModelLoader, left: int) -> None:
    """Log the requests in flight of each version; an open sequence is one of them, as in Triton."""
    busy = [(copy, count) for copy in loader.copies if (count := max(copy.in_flight, copy.live_sequences))]
    logger.info("Timeout %d: Found %d model versions that have in-flight inferences", left, len(busy))
    for copy, count in busy:
        logger.info("Model '%s' (version %d) has %d in-flight inferences", copy.config.name, copy.version, count)


def _report_live(loader: ModelLoader, left: int) -> None:
    logger.info("Timeout %d: Found %d live models and 0 in-flight non-inference requests", left, len(loader.copies))
