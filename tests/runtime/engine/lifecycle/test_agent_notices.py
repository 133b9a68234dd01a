"""What the repository agents of a model hear of its life, and when."""

import asyncio
from dataclasses import replace

import pytest

from charonia_runtime.core.agent import AgentAction
from charonia_runtime.core.config import RepositoryAgent
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.engine.lifecycle import agent_notices
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.loading import ModelLoader
from charonia_runtime.engine.registry import ModelRegistry
from tests.support.models import FakeModels, FakeReader, RecordingSink

LIFE = ["LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]


class Recorder:
    """An agent that remembers, under a name for each load, what it heard; `errors` says what it raises."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def act(self, action, directory):
        self.server.heard.append((self.name, action.value))
        if action in self.server.errors:
            raise self.server.errors[action]


class Server:
    """A loader of models that have two agents, `a` and `b`."""

    def __init__(self, monkeypatch):
        self.heard = []
        self.errors = {}
        self.loads = 0
        self.registry = ModelRegistry()
        self.reader = FakeReader()
        self.models = FakeModels()
        self.loader = ModelLoader(self.registry, self.reader, self.models, FileThreads())
        monkeypatch.setattr(agent_notices, "make_agents", self.make)

    def make(self, agents):
        self.loads += 1
        return [Recorder(self, f"{agent.name}{self.loads}") for agent in agents]

    def put(self, **fields):
        polled = self.reader.put("simple", **fields)
        config = replace(polled.config, repository_agents=(RepositoryAgent("a", {}), RepositoryAgent("b", {})))
        self.reader.models["simple"] = replace(polled, config=config)

    def of(self, name):
        return [action for agent, action in self.heard if agent == name]


@pytest.fixture
async def server(monkeypatch):
    server = Server(monkeypatch)
    server.put()
    return server


async def test_a_life(server):
    await server.loader.load("simple")
    await server.loader.load("simple")
    await server.loader.unload("simple")
    await server.loader.settle()

    assert server.of("a1") == server.of("b1") == LIFE
    first, second = ("a1", "b1"), ("b1", "a1")
    assert [agent for agent, _ in server.heard] == [*first, *second, *first, *second]


async def test_a_reload_is_another_life(server):
    await server.loader.load("simple")
    server.put(others=2)
    await server.loader.load("simple")
    await server.loader.settle()

    assert server.of("a1") == LIFE
    assert server.of("a2") == LIFE[:2]
    assert server.heard.index(("a2", "LOAD_COMPLETE")) < server.heard.index(("a1", "UNLOAD"))


async def test_the_end_comes_when_the_last_request_is_answered(server):
    server.put(versions=(1, 2))
    await server.loader.load("simple")
    copy = server.registry.find("simple", 1).copy
    copy.submit(InferenceRequest("simple", {}, RecordingSink()))
    await server.loader.unload("simple")
    while not server.models.newest("simple", 2).closed:  # noqa: ASYNC110 - it sets no event
        await asyncio.sleep(0)
    assert server.of("a1") == LIFE[:3]
    copy.answer_all()
    await server.loader.settle()
    assert server.of("a1") == LIFE


async def test_copies_that_are_kept_live_on_under_the_new_agents(server):
    await server.loader.load("simple")
    server.put(config_time=2)
    await server.loader.load("simple")
    assert len(server.models.made) == 1, "updated in place"
    assert (server.of("a1"), server.of("a2")) == (LIFE, LIFE[:2])
    await server.loader.unload("simple")
    await server.loader.settle()
    assert server.of("a2") == LIFE


async def test_one_that_refuses(server, caplog):
    server.errors[AgentAction.LOAD] = UnavailableError("not today")
    with pytest.raises(InternalError, match="failed to poll from model repository"):
        await server.loader.load("simple")
    assert server.heard == [("a1", "LOAD"), ("a1", "LOAD_FAIL")]
    assert "Poll failed for model directory 'simple': not today" in caplog.messages
    assert not server.models.made


async def test_what_served_goes_on_where_one_refuses(server):
    await server.loader.load("simple")
    server.put(others=2)
    server.errors[AgentAction.LOAD] = ValueError("broken")
    with pytest.raises(InternalError):
        await server.loader.load("simple")
    assert server.of("a1") == LIFE[:2]
    assert server.registry.find("simple").copy is server.models.newest("simple", 1)


async def test_a_load_that_fails(server):
    server.models.failures = {("simple", 1): InternalError("no")}
    with pytest.raises(InvalidArgumentError):
        await server.loader.load("simple")
    await server.loader.settle()
    assert server.of("a1") == server.of("b1") == ["LOAD", "LOAD_FAIL"]


async def test_what_agents_raise_later_is_only_logged(server, caplog):
    server.errors = {action: ValueError("broken") for action in AgentAction if action is not AgentAction.LOAD}
    await server.loader.load("simple")
    await server.loader.unload_all()
    assert server.of("a1") == server.of("b1") == LIFE
    assert caplog.text.count("failed on UNLOAD_COMPLETE of") == 2
