"""The last thing of a server's life that may block: it is waited for, but not for ever."""

import threading

from charonia_runtime.engine.shutdown import close_within


async def test_what_closes_in_time():
    threads = []
    await close_within(20, "traces", lambda: threads.append(threading.current_thread()))
    (thread,) = threads
    assert thread is not threading.main_thread()
    assert thread.daemon


async def test_what_does_not_close_is_left_behind(caplog):
    opened = threading.Event()
    await close_within(0.01, "traces", opened.wait)
    assert caplog.messages == ["traces are lost: there is no time left to wait for them"]
    opened.set()


async def test_what_fails_is_said(caplog):
    await close_within(20, "traces", [].pop)
    assert caplog.messages == ["traces are lost"]
