import asyncio

import pytest

from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.loading import ModelLoader
from charonia_runtime.engine.lifecycle.polling import RepositoryPoller
from charonia_runtime.engine.registry import ModelRegistry
from tests.support.models import FakeModels, FakeReader


class FakeRepositories:
    """What `locate` finds: the reader's models, the ambiguous ones twice."""

    def __init__(self, reader):
        self.reader = reader
        self.broken = False
        self.refreshes = 0
        self.unreachable = False

    def refresh(self):
        self.refreshes += 1
        if self.unreachable:
            raise UnavailableError("the bucket is gone")

    def identifiers(self, name):
        return (name,)

    def locate(self):
        if self.broken:
            raise OSError("stale file handle")
        return {name: ("a", "b") if name in self.reader.ambiguous else ("a",) for name in sorted(self.reader.models)}


class Server:
    def __init__(self):
        self.registry = ModelRegistry()
        self.reader = FakeReader()
        self.models = FakeModels()
        files = FileThreads()
        self.loader = ModelLoader(self.registry, self.reader, self.models, files)
        self.repositories = FakeRepositories(self.reader)
        self.poller = RepositoryPoller(self.repositories, self.loader, files)

    def states(self):
        located = dict.fromkeys(self.registry.names(), 1)
        return {f"{entry.name}:{entry.version}": entry.state for entry in self.registry.index(located)}


@pytest.fixture
async def server():
    server = Server()
    for name in ("a", "b", "c"):
        server.reader.put(name)
    return server


async def test_startup_loads_everything(server):
    assert await server.poller.load_all()
    assert server.states() == {"a:1": "READY", "b:1": "READY", "c:1": "READY"}


async def test_startup_goes_on_after_a_failure(server):
    server.models.failures = {("b", 1): InternalError("no")}

    assert not await server.poller.load_all()
    assert server.states() == {"a:1": "READY", "b:1": "UNAVAILABLE", "c:1": "READY"}


async def test_startup_with_names(server):
    assert not await server.poller.load_all(["a", "missing"])
    assert server.states() == {"a:1": "READY"}


async def test_a_poll_applies_changes(server):
    await server.poller.load_all()
    server.reader.remove("a")
    server.reader.put("b", others=2)
    server.reader.put("d")
    await server.poller.poll()
    await server.loader.settle()

    assert server.states() == {"a:1": "UNAVAILABLE", "b:1": "READY", "c:1": "READY", "d:1": "READY"}
    assert server.models.attempts.count(("b", 1)) == 2
    assert server.models.attempts.count(("c", 1)) == 1


async def test_copies_are_refreshed_before_each_poll_and_a_failure_stops_none(server, caplog):
    await server.poller.load_all()
    server.repositories.unreachable = True
    server.reader.put("d")
    await server.poller.poll()

    assert server.repositories.refreshes == 1
    assert server.states()["d:1"] == "READY"
    assert "failed to copy a model repository: the bucket is gone" in caplog.text


async def test_a_failed_reload_is_tried_at_every_poll(server):
    await server.poller.load_all()
    server.reader.put("b", others=2)
    server.models.failures = {("b", 1): InternalError("no")}
    await server.poller.poll()
    await server.poller.poll()

    assert server.models.attempts.count(("b", 1)) == 3
    assert server.states()["b:1"] == "READY"


async def test_a_model_that_becomes_ambiguous_is_unloaded_and_comes_back(server):
    await server.poller.load_all()
    server.reader.ambiguous = {"b"}
    await server.poller.poll()
    await server.loader.settle()
    assert server.states()["b:1"] == "UNAVAILABLE"

    server.reader.ambiguous = set()
    await server.poller.poll()
    assert server.states()["b:1"] == "READY"


async def test_a_failed_model_that_is_removed_does_not_count_any_more(server):
    server.models.failures = {("b", 1): InternalError("no")}
    await server.poller.load_all()
    assert not server.registry.all_settled()

    server.reader.remove("b")
    await server.poller.poll()
    assert server.registry.all_settled()


async def test_models_that_are_busy_wait_for_the_next_poll(server):
    gate = server.models.hold("b", 1)
    load = asyncio.create_task(server.loader.load("b"))
    await server.models.wait_for_attempts(1)
    await server.poller.poll()
    assert server.reader.reads.count("b") == 1

    gate.set()
    await load
    await server.poller.poll()
    assert server.reader.reads.count("b") == 2


async def test_polls_come_after_each_period_even_after_a_failure(server, caplog):
    waits = asyncio.Queue()
    may_poll = asyncio.Queue()

    async def wait(seconds):
        waits.put_nowait(seconds)
        await may_poll.get()

    polling = asyncio.create_task(server.poller.run(7, wait))
    assert await waits.get() == 7
    server.repositories.broken = True
    may_poll.put_nowait(None)
    assert await waits.get() == 7
    assert "failed to poll the model repositories" in caplog.messages

    server.repositories.broken = False
    may_poll.put_nowait(None)
    assert await waits.get() == 7
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)

    assert server.states() == {"a:1": "READY", "b:1": "READY", "c:1": "READY"}
