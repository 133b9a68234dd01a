import asyncio

from charonia_runtime.engine.lifecycle.locks import NamedLocks


async def test_holders_of_one_name_follow_each_other():
    locks = NamedLocks()
    order: list[str] = []
    first_holds, first_may_go = asyncio.Event(), asyncio.Event()

    async def first():
        async with locks.hold("a"):
            first_holds.set()
            await first_may_go.wait()
            order.append("first")

    async def second():
        async with locks.hold("b", "a"):
            order.append("second")

    async def third():
        async with locks.hold("c"):
            order.append("third")

    tasks = [asyncio.create_task(first())]
    await first_holds.wait()
    tasks.append(asyncio.create_task(second()))
    await third()
    assert locks.busy("a")
    first_may_go.set()
    await asyncio.gather(*tasks)

    assert order == ["third", "first", "second"]
    assert not any(locks.busy(name) for name in "abc")


async def test_who_gives_up_waiting_leaves_nothing_behind():
    locks = NamedLocks()

    async def wait():
        async with locks.hold("a", "b"):
            raise AssertionError("must not get here")

    async with locks.hold("b"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)  # its first step: it takes "a" and waits for "b"
        assert locks.busy("a")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not locks.busy("a")
    assert not locks.busy("b")
