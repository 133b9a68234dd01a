"""The mirror finds what the server finds, with the same words."""

import json

import pytest

from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.remote.documents import write_error
from charonia_runtime.remote.mirror import ModelMirror, write_versions
from tests.support.fake_server import FakeServer, echo_config


def asked(find, name, version):
    try:
        served = find(name, version)
    except InferenceError as error:
        return type(error), error.message
    return served


@pytest.fixture
def server():
    server = FakeServer()
    server.add(echo_config("one"), version=1)
    server.add(echo_config("two"), version=2)
    server.add(echo_config("two"), version=11)
    server.add(echo_config("two"), version=12, ready=False)
    server.add(echo_config("none"), ready=False)
    return server


@pytest.mark.parametrize("name", ["one", "two", "none", "other"])
@pytest.mark.parametrize("version", [ANY_VERSION, 1, 2, 11, 12])
def test_finds_the_same(server, name, version):
    mirror = ModelMirror()
    for known in (*server.model_names(), "other"):
        mirror.update(known, json.loads(json.dumps(write_versions(server.served_versions(known)))))

    assert asked(mirror.find, name, version) == asked(server.find_model, name, version)


def test_forgets_what_is_gone(server):
    mirror = ModelMirror()
    mirror.update("one", write_versions(server.served_versions("one")))
    assert mirror.find("one", ANY_VERSION).version == 1
    mirror.update("one", {"1": None})
    assert asked(mirror.find, "one", ANY_VERSION)[1] == "Request for unknown model: 'one' has no available versions"


def test_says_what_the_server_says_of_ambiguous_names(server):
    mirror = ModelMirror()
    mirror.update("one", write_versions(server.served_versions("one")))
    mirror.update("one", json.loads(json.dumps(write_error(InvalidArgumentError("ambiguous")))))
    assert asked(mirror.find, "one", ANY_VERSION) == asked(mirror.find, "one", 1) == (InvalidArgumentError, "ambiguous")

    mirror.update("one", write_versions(server.served_versions("one")))
    assert mirror.find("one", ANY_VERSION).version == 1
