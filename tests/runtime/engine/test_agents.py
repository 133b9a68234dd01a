"""Repository agents, through the reader that runs them."""

import hashlib

import pytest

from charonia_runtime.core.config import RepositoryAgent
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.engine.agents import agent_names, run_agents
from charonia_runtime.engine.agents.checksum import Agent
from charonia_runtime.engine.lifecycle.reading import ModelReader, Override, PollError
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
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


def test_a_model_whose_files_are_right_is_read(tmp_path, model):
    write_model(tmp_path, config=agents_text(("MD5:1/model.bin", SUM), ("md5:1/./model.bin", SUM)))
    assert ModelReader(ModelRepositories([tmp_path])).read("simple").versions == (1,)


def test_a_model_whose_files_are_not_is_refused(tmp_path, model):
    write_model(tmp_path, config=agents_text(("MD5:1/model.bin", SUM), ("MD5:1/model.bin", "00")))

    with pytest.raises(PollError) as raised:
        ModelReader(ModelRepositories([tmp_path])).read("simple")

    assert str(raised.value) == (
        "Poll failed for model directory 'simple': Mismatched MD5 hash for file "
        f"{model / '1' / 'model.bin'}, expect: 00, got: {SUM}"
    )


def test_files_of_load_requests_are_looked_at_as_well(tmp_path):
    config = (
        '{"backend": "identity", "model_repository_agents": {"agents": [{"name": "checksum", "parameters": '
        '{"MD5:1/model.bin": "00"}}]}}'
    )
    with pytest.raises(PollError, match="Mismatched MD5 hash"):
        ModelReader(ModelRepositories([tmp_path])).read("simple", Override(config, {"file:1/model.bin": b"weights"}))


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
        Agent({key: SUM}).check(model)

    assert raised.value.message == message.format(model=model)


def test_unknown_agents(model):
    with pytest.raises(InferenceError) as raised:
        run_agents([RepositoryAgent("foo", {})], model, "/agents")

    assert raised.value.message == "unable to find 'libtritonrepoagent_foo.so' for repo agent 'foo', searched: /agents"
    assert agent_names() == ["checksum"]
