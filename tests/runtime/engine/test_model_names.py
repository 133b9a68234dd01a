"""Names that several repositories may share: which model each of them means."""

import pytest

from charonia_runtime.core.errors import InvalidArgumentError, NotFoundError
from charonia_runtime.engine.model_names import ModelNames
from charonia_runtime.engine.registry import ModelRegistry
from tests.support.models import FakeModel, a_polled

AMBIGUOUS = (
    "There are {} identifiers of model 'm' in global map, model namespace must be provided to resolve ambiguity."
)


@pytest.fixture
def names():
    names = ModelNames(namespacing=True)
    names.add("m", "/a::m")
    return names


def test_a_name_means_its_only_model(names):
    assert (names.meant("m"), names.names(), names.identifiers("m")) == ("/a::m", ["m"], ("/a::m",))


def test_a_name_of_several_models_means_none(names):
    names.add("m", "/b::m")

    assert names.meant("m") is None
    error = names.refusal("m")
    assert (type(error), error.message) == (InvalidArgumentError, AMBIGUOUS.format(2))


def test_an_unloaded_model_does_not_make_a_name_ambiguous(names):
    names.add("m", "/b::m")

    assert names.drop("m", "/a::m")
    assert (names.meant("m"), names.identifiers("m")) == ("/b::m", ("/a::m", "/b::m"))
    names.add("m", "/a::m")
    assert names.meant("m") is None


def test_a_name_whose_models_are_unloaded_is_not_found(names):
    names.drop("m", "/a::m")

    error = names.refusal("m")
    assert (type(error), error.message) == (NotFoundError, "Identifier of model 'm' is not found in global map")
    names.remove("m", "/a::m")
    assert names.refusal("m").message == "Request for unknown model: 'm' is not found"


def test_without_namespacing_a_model_keeps_its_name():
    names = ModelNames(namespacing=False)
    names.add("m", "m")

    assert not names.drop("m", "m")
    assert names.meant("m") == "m"


# --- in the registry ---


def serve(registry, namespace, name="m"):
    identifier = f"{namespace}::{name}"
    registry.know(identifier, name, namespace)
    registry.begin_load(identifier, [1])
    registry.complete_load(identifier, {1: FakeModel(a_polled(name).config, 1)})


async def test_watchers_hear_of_a_name_that_becomes_ambiguous_and_clear_again():
    registry = ModelRegistry(namespacing=True)
    serve(registry, "/a")
    heard = []
    registry.watch(lambda name: heard.append((name, _found(registry, name))))

    serve(registry, "/b")
    assert heard[-1] == ("m", AMBIGUOUS.format(2))
    registry.begin_unload("/a::m", 1)
    registry.drop("/a::m")
    assert heard[-1] == ("m", 1)


async def test_models_are_in_the_order_of_their_repositories():
    registry = ModelRegistry(namespacing=True)
    for namespace, name in (("/b", "a"), ("/a", "z"), ("/a-b", "c"), ("/a", "b")):
        serve(registry, namespace, name)

    assert registry.identifiers() == ["/a::b", "/a::z", "/a-b::c", "/b::a"]
    assert registry.names() == ["a", "b", "c", "z"]
    assert [(one.namespace, one.name) for one in registry.statistics()] == [
        ("/a", "b"), ("/a", "z"), ("/a-b", "c"), ("/b", "a"),
    ]  # fmt: skip


def _found(registry, name):
    try:
        return registry.find(name).served.version
    except InvalidArgumentError as error:
        with pytest.raises(InvalidArgumentError):
            registry.served(name)
        return error.message
