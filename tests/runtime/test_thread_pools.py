"""Pools of threads: limits, order, errors that hold nothing."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.thread_pools import LARGE_BYTES, ThreadPool

LARGE = LARGE_BYTES + 1


class Calls:
    """Blocking calls that wait until they are released."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self._doors: dict[str, threading.Event] = {}
        self._inside = threading.Semaphore(0)

    def blocking(self, name: str):
        self._doors[name] = threading.Event()
        return partial(self._block, name)

    def _block(self, name: str) -> str:
        self.began.append(name)
        self._inside.release()
        assert self._doors[name].wait(20)
        return name

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._inside.acquire, timeout=20)

    def release(self, name: str) -> None:
        self._doors[name].set()


@pytest.fixture
def calls():
    calls = Calls()
    yield calls
    for name in list(calls._doors):
        calls.release(name)


async def test_a_call_returns_or_raises():
    pool = ThreadPool("t", 1)
    assert await pool.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)
    with pytest.raises(InvalidArgumentError, match="no"):
        await pool.run(partial(_refuse, "no"))
    assert await pool.run(lambda: 8) == 8


async def test_calls_at_the_same_time_have_threads_of_their_own(calls):
    pool = ThreadPool("t", 2)
    first = asyncio.create_task(pool.run(calls.blocking("first")))
    second = asyncio.create_task(pool.run(calls.blocking("second")))
    await calls.entered()
    await calls.entered()
    calls.release("second")
    assert await second == "second"
    calls.release("first")
    assert await first == "first"


async def test_no_more_threads_than_allowed(calls):
    pool = ThreadPool("t", 2)
    tasks = [asyncio.create_task(pool.run(calls.blocking(name))) for name in "abc"]
    await calls.entered()
    await calls.entered()
    assert len(calls.began) == 2
    for name in "abc":
        calls.release(name)
    assert await asyncio.gather(*tasks) == ["a", "b", "c"]


async def test_small_calls_wait_for_no_large_one(calls):
    pool = ThreadPool("t", 2)
    large = [asyncio.create_task(pool.run(calls.blocking(name), size=LARGE)) for name in ("one", "two")]
    await calls.entered()
    assert await pool.run(lambda: "small") == "small"
    assert len(calls.began) == 1
    for name in ("one", "two"):
        calls.release(name)
    assert await asyncio.gather(*large) == ["one", "two"]


async def test_smaller_calls_run_first(calls):
    pool = ThreadPool("t", 1)
    ran: list[int] = []
    blocked = asyncio.create_task(pool.run(calls.blocking("first")))
    await calls.entered()
    waiting = [asyncio.create_task(pool.run(partial(ran.append, size), size=size)) for size in (3, LARGE, 1, 2)]
    await asyncio.sleep(0)
    calls.release("first")
    await asyncio.gather(blocked, *waiting)
    assert ran == [1, 2, 3, LARGE]


async def test_a_cancelled_call_that_waits_is_not_made(calls):
    pool = ThreadPool("t", 1)
    ran: list[str] = []
    blocked = asyncio.create_task(pool.run(calls.blocking("first")))
    await calls.entered()
    unwanted = asyncio.create_task(pool.run(partial(ran.append, "unwanted")))
    await asyncio.sleep(0)
    unwanted.cancel()
    await asyncio.gather(unwanted, return_exceptions=True)
    calls.release("first")
    await blocked
    await pool.run(partial(ran.append, "wanted"))
    assert ran == ["wanted"]


class Body:
    """What a failing call had in its hands."""


@pytest.mark.parametrize("error", [InvalidArgumentError("no"), ValueError("no")])
async def test_errors_hold_nothing_of_their_call(error):
    pool = ThreadPool("t", 1)
    heard: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    body = Body()

    def fail_with(body: Body) -> None:
        held = body
        try:
            assert held is None
        except AssertionError as cause:
            raise error from cause

    gc.disable()
    try:
        pool.start(partial(fail_with, body), heard.set_result, heard.set_result)
        assert await heard is error
        gone = threading.Event()
        weakref.finalize(body, gone.set)
        del body
        assert await asyncio.to_thread(gone.wait, 20)
    finally:
        gc.enable()


async def test_the_traceback_of_a_defect_is_kept_as_text():
    pool = ThreadPool("t", 1)
    with pytest.raises(ZeroDivisionError) as caught:
        await pool.run(lambda: 1 // 0)
    assert "1 // 0" in "".join(caught.value.__notes__)


async def test_awaited_errors_leave_no_cycle():
    pool = ThreadPool("t", 1)
    for _ in range(3):
        with pytest.raises(InvalidArgumentError):
            await pool.run(partial(_refuse, "kept?"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            with suppress(InvalidArgumentError):
                await pool.run(partial(_refuse, "kept?"))
        await asyncio.sleep(0)
        assert not [one for one in gc.get_objects() if isinstance(one, InvalidArgumentError) and one.message == "kept?"]
    finally:
        gc.enable()


def _refuse(text: str) -> None:
    raise InvalidArgumentError(text)
