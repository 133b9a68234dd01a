"""The agent `checksum`, by itself and through what loads and checks models."""

import hashlib
from pathlib import Path

import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.agent import AgentAction
from charonia_runtime.core.config import RepositoryAgent
from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.engine.agents import agent_names, require_agents
from charonia_runtime.engine.agents.checksum import Agent
from charonia_runtime.engine.inspection import Surroundings, inspect
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.loading import ModelLoader
from charonia_runtime.engine.lifecycle.reading import ModelReader, Override
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from charonia_runtime.engine.registry import ModelRegistry
from tests.support.models import FakeModels
from tests.support.repositories import write_model

SUM = hashlib.md5(b"weights", usedforsecurity=False).hexdigest()


@pytest.fixture
def model(tmp_path):
    directory = write_model(tmp_path)
    (directory / "1" / "model.bin").write_bytes(b"weights")
    return directory


def agents_text(*parameters):
    listed = " ".join(f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in parameters)
    return f'model_repository_agents {{ agents {{ name: "checksum" {listed} }} }}'


def a_loader(repository):
    return ModelLoader(ModelRegistry(), ModelReader(ModelRepositories([repository])).read, FakeModels(), FileThreads())


async def test_a_model_whose_files_are_right_is_loaded(tmp_path, model):
    write_model(tmp_path, config=agents_text(("MD5:1/model.bin", SUM), ("md5:1/./model.bin", SUM)))
    loader = a_loader(tmp_path)
    await loader.load("simple")
    assert [copy.version for copy in loader.copies] == [1]


async def test_a_model_whose_files_are_not_is_refused(tmp_path, model, caplog):
    write_model(tmp_path, config=agents_text(("MD5:1/model.bin", SUM), ("MD5:1/model.bin", "00")))
    text = f"Mismatched MD5 hash for file {model / '1' / 'model.bin'}, expect: 00, got: {SUM}"

    with pytest.raises(InternalError, match=r"^failed to load 'simple', failed to poll from model repository$"):
        await a_loader(tmp_path).load("simple")

    assert f"Poll failed for model directory 'simple': {text}" in caplog.messages
    (fault,) = inspect(ModelRepositories([tmp_path]), Surroundings(load_backend, Path("/nowhere")))
    assert (fault.field, fault.message) == ("model_repository_agents", text)


async def test_files_of_load_requests_are_looked_at_as_well(tmp_path, caplog):
    config = (
        '{"backend": "identity", "model_repository_agents": {"agents": [{"name": "checksum", "parameters": '
        '{"MD5:1/model.bin": "00"}}]}}'
    )
    with pytest.raises(InternalError):
        await a_loader(tmp_path).load("simple", Override(config, {"file:1/model.bin": b"weights"}))
    assert "Mismatched MD5 hash" in caplog.text


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("1/model.bin", "failed to parse key: 1/model.bin"),
        ("SHA1:1/model.bin", "Unsupported checksum algorithm: SHA1"),
        ("MD5:2/model.bin", "failed to open text file for read {model}/2/model.bin: No such file or directory"),
        ("MD5:../other/model.bin", "the path of 'MD5:../other/model.bin' must be inside the model's folder"),
        ("MD5:/etc/passwd", "the path of 'MD5:/etc/passwd' must be inside the model's folder"),
    ],
)
def test_what_cannot_be_checked(model, key, message):
    with pytest.raises(InferenceError) as raised:
        Agent({key: SUM}).act(AgentAction.LOAD, model)

    assert raised.value.message == message.format(model=model)


@pytest.mark.parametrize("action", [action for action in AgentAction if action is not AgentAction.LOAD])
def test_a_model_is_looked_at_once(model, action):
    Agent({"MD5:2/none": SUM}).act(action, model)


def test_unknown_agents():
    with pytest.raises(InferenceError) as raised:
        require_agents([RepositoryAgent("foo", {})], "/agents")

    assert raised.value.message == "unable to find 'libtritonrepoagent_foo.so' for repo agent 'foo', searched: /agents"
    assert agent_names() == ["checksum"]
