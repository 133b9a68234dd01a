import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from charonia_runtime.core.config import InstanceGroup, ModelConfig
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia_runtime.core.server import IndexEntry
from charonia_runtime.engine.registry import ModelRegistry
from tests.support.models import FakeModel


@pytest.fixture
async def registry():
    return ModelRegistry()


def copy_of(name="simple", version=1):
    return FakeModel(ModelConfig(name), version)


def serve(registry, name="simple", *versions):
    copies = {version: copy_of(name, version) for version in versions or (1,)}
    registry.begin_load(name, copies)
    registry.complete_load(name, copies)
    return copies


def states(registry, name="simple"):
    return [
        (entry.version, entry.state, entry.reason) for entry in registry.index({name: 1}) if entry.version is not None
    ]


# --- watching ---


async def test_watchers_hear_of_what_can_be_found(registry):
    heard = []
    end = registry.watch(heard.append)
    registry.know("empty")
    registry.know("empty")
    assert heard == ["empty"]
    registry.forget_failures("empty")
    assert heard == ["empty", "empty"]
    assert registry.served("empty") is None
    serve(registry)
    registry.begin_load("simple", [1])
    registry.keep("simple", [1])
    assert len(heard) == 7
    end()
    end()
    serve(registry)
    assert len(heard) == 7


# --- finding ---


async def test_the_largest_ready_version_answers(registry):
    copies = serve(registry, "simple", 1, 3)

    assert registry.find("simple").copy is copies[3]
    assert registry.find("simple", 1).copy is copies[1]

    registry.begin_unload("simple", 3)
    assert registry.find("simple").copy is copies[1]


@pytest.mark.parametrize(
    ("name", "version", "error", "text"),
    [
        ("other", -1, NotFoundError, "Request for unknown model: 'other' is not found"),
        ("simple", 2, NotFoundError, "Request for unknown model: 'simple' version 2 is not found"),
        ("loading", -1, NotFoundError, "Request for unknown model: 'loading' has no available versions"),
        ("loading", 1, UnavailableError, "Request for unknown model: 'loading' version 1 is not at ready state"),
        ("empty", -1, NotFoundError, "Request for unknown model: 'empty' has no available versions"),
    ],
)
async def test_requests_that_find_nothing(registry, name, version, error, text):
    serve(registry)
    registry.begin_load("loading", [1])
    registry.know("empty")

    with pytest.raises(error) as caught:
        registry.find(name, version)

    assert caught.value.message == text


async def test_what_frontends_see_is_made_once_and_follows_the_configuration(registry):
    copy = serve(registry)[1]
    serving = registry.find("simple")
    assert serving.served is serving.served

    copy.config = ModelConfig("simple", instance_groups=(InstanceGroup("more"),))
    assert serving.served.config is copy.config


# --- states ---


async def test_a_first_load(registry):
    registry.begin_load("simple", [1])
    assert states(registry) == [(1, "LOADING", None)]

    registry.complete_load("simple", {1: copy_of()})
    assert states(registry) == [(1, "READY", None)]


async def test_a_failed_first_load(registry):
    registry.begin_load("simple", [1])
    registry.fail("simple", 1, InternalError("no"))

    assert states(registry) == [(1, "UNAVAILABLE", "Internal: no")]


async def test_a_failed_reload_is_not_seen(registry):
    copy = serve(registry)[1]
    registry.begin_load("simple", [1])
    registry.fail("simple", 1, InternalError("no"))

    assert states(registry) == [(1, "READY", None)]
    assert registry.find("simple").copy is copy


async def test_a_reload_replaces_the_copy(registry):
    old = serve(registry)[1]
    new = copy_of()
    registry.begin_load("simple", [1])

    assert registry.find("simple").copy is old
    assert registry.complete_load("simple", {1: new}) == [old]
    assert registry.find("simple").copy is new
    assert registry.copies("simple") == [new, old]

    registry.closed("simple", 1, old)
    assert registry.copies("simple") == [new]


async def test_an_unload(registry):
    copy = serve(registry)[1]
    assert registry.begin_unload("simple", 1) is copy
    assert states(registry) == [(1, "UNLOADING", None)]

    registry.closed("simple", 1, copy)
    assert states(registry) == [(1, "UNAVAILABLE", "unloaded")]


async def test_a_load_while_the_version_unloads_starts_a_new_copy(registry):
    old = serve(registry)[1]
    registry.begin_unload("simple", 1)
    new = copy_of()
    registry.begin_load("simple", [1])
    assert states(registry) == [(1, "LOADING", None)]

    registry.complete_load("simple", {1: new})
    registry.closed("simple", 1, old)
    assert states(registry) == [(1, "READY", None)]
    assert registry.find("simple").copy is new


async def test_a_version_whose_sibling_failed_is_unloaded_again(registry):
    copy = copy_of()
    registry.begin_load("simple", [1, 2])
    registry.fail("simple", 2, InternalError("no"))
    registry.abandon("simple", 1, copy)
    assert states(registry) == [(1, "UNLOADING", None), (2, "UNAVAILABLE", "Internal: no")]

    registry.closed("simple", 1, copy)
    assert states(registry) == [(1, "UNAVAILABLE", "unloaded"), (2, "UNAVAILABLE", "Internal: no")]


async def test_unloading_what_does_not_serve_is_a_mistake(registry):
    registry.begin_load("simple", [1])

    with pytest.raises(ValueError, match="does not serve"):
        registry.begin_unload("simple", 1)


# --- index and readiness ---


async def test_the_index_lists_directories(registry):
    serve(registry, "loaded", 1, 2)
    serve(registry, "elsewhere")
    registry.know("empty")
    registry.begin_load("failed", [1])
    registry.fail("failed", 1, InvalidArgumentError("bad"))

    directories = {"empty": 1, "failed": 1, "loaded": 1, "twice": 2, "untouched": 1}
    assert registry.index(directories) == [
        IndexEntry("failed", 1, "UNAVAILABLE", "Invalid argument: bad"),
        IndexEntry("loaded", 1, "READY"),
        IndexEntry("loaded", 2, "READY"),
        IndexEntry("twice", None, "UNAVAILABLE", "model appears in two or more repositories"),
        IndexEntry("untouched"),
    ]
    assert registry.index(directories, ready=True) == [
        IndexEntry("loaded", 1, "READY"),
        IndexEntry("loaded", 2, "READY"),
    ]


async def test_readiness(registry):
    assert registry.all_settled()

    copy = serve(registry)[1]
    assert registry.all_settled()

    registry.begin_load("simple", [1])
    assert registry.all_settled(), "a reload in the background does not count"

    registry.fail("simple", 1, InternalError("no"))
    registry.begin_unload("simple", 1)
    assert not registry.all_settled()

    registry.closed("simple", 1, copy)
    assert registry.all_settled()

    registry.begin_load("simple", [1])
    assert not registry.all_settled()

    registry.fail("simple", 1, InternalError("no"))
    assert not registry.all_settled()

    registry.forget_failures("simple")
    assert registry.all_settled()
    assert states(registry) == [(1, "UNAVAILABLE", "unloaded")]


async def test_a_server_whose_model_cannot_run_is_not_ready(registry):
    copy = serve(registry)[1]

    copy.ready = False
    assert not registry.all_settled()

    registry.begin_unload("simple", 1)
    registry.closed("simple", 1, copy)
    assert registry.all_settled()


async def test_what_serves_counts_alone_for_steady_readiness(registry):
    copy = serve(registry)[1]
    registry.begin_load("simple", [2])
    registry.begin_load("other", [1])
    registry.fail("other", 1, InternalError("no"))
    registry.know("empty")
    assert registry.all_alive()

    copy.ready = False
    assert not registry.all_alive()


async def test_a_model_without_versions_is_not_ready_until_its_directory_is_gone(registry):
    registry.know("empty")
    assert not registry.all_settled()

    registry.forget_failures("empty")
    assert registry.all_settled()
    with pytest.raises(NotFoundError, match="is not found"):
        registry.find("empty")


# --- statistics ---


async def test_statistics_of_ready_versions(registry):
    serve(registry, "b", 1, 2)
    serve(registry, "a")
    registry.begin_unload("b", 1)

    assert [(one.name, one.version) for one in registry.statistics()] == [("a", 1), ("b", 2)]
    assert [(one.name, one.version) for one in registry.statistics("b", 2)] == [("b", 2)]


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [
        ("other", -1, "requested model 'other' is not available"),
        ("gone", 1, "requested model 'gone' is not available"),
        ("simple", 9, "requested model version is not available for model 'simple'"),
    ],
)
async def test_statistics_of_what_is_not_ready(registry, name, version, text):
    serve(registry)
    serve(registry, "gone")
    registry.begin_unload("gone", 1)

    with pytest.raises(InvalidArgumentError) as caught:
        registry.statistics(name, version)

    assert caught.value.message == text


def earlier_count(registry):
    earlier = registry.statistics("simple")[0].earlier
    return None if earlier is None else earlier.inference_count


async def test_counters_survive_reloads_but_not_unloads(registry):
    old = serve(registry)[1]
    assert earlier_count(registry) is None

    old.statistics.inference_count = 3
    middle = serve(registry)[1]
    assert earlier_count(registry) == 3
    assert registry.statistics("simple")[0].statistics.inference_count == 0

    old.statistics.inference_count = 4  # a request that was in flight
    middle.statistics.inference_count = 10
    registry.closed("simple", 1, old)
    serve(registry)
    assert earlier_count(registry) == 14

    registry.closed("simple", 1, registry.begin_unload("simple", 1))
    serve(registry)
    registry.closed("simple", 1, middle)
    assert earlier_count(registry) is None


# --- any order of events ---


class RegistryMachine(RuleBasedStateMachine):
    """Loads, reloads, failures and unloads of one model with three versions, closing copies in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = ModelRegistry()
        self.mirrored = {}
        self.registry.watch(lambda name: self.mirrored.update({name: self.registry.served(name)}))
        self.loading: list[int] = []
        self.serving: dict[int, FakeModel] = {}
        self.open: list[tuple[int, FakeModel]] = []

    @precondition(lambda self: not self.loading)
    @rule(versions=st.sets(st.integers(1, 3), min_size=1))
    def begin(self, versions):
        self.registry.begin_load("m", sorted(versions))
        self.loading = sorted(versions)

    @precondition(lambda self: self.loading)
    @rule()
    def complete(self):
        copies = {version: self.make(version) for version in self.loading}
        replaced = self.registry.complete_load("m", copies)
        assert replaced == [self.serving[version] for version in copies if version in self.serving]
        self.serving.update(copies)
        self.loading = []

    @precondition(lambda self: self.loading)
    @rule(data=st.data())
    def give_up(self, data):
        failing = data.draw(st.sets(st.sampled_from(self.loading), min_size=1))
        for version in self.loading:
            if version in failing:
                self.registry.fail("m", version, InternalError("no"))
            else:
                self.registry.abandon("m", version, self.make(version))
        self.loading = []

    @precondition(lambda self: self.serving and not self.loading)
    @rule(data=st.data())
    def unload(self, data):
        version = data.draw(st.sampled_from(sorted(self.serving)))
        assert self.registry.begin_unload("m", version) is self.serving.pop(version)

    @precondition(lambda self: self.idle)
    @rule(data=st.data())
    def close(self, data):
        one = data.draw(st.sampled_from(self.idle))
        self.open.remove(one)
        self.registry.closed("m", *one)

    @property
    def idle(self):
        return [one for one in self.open if one[1] not in self.serving.values()]

    def make(self, version):
        copy = FakeModel(ModelConfig("m"), version)
        self.open.append((version, copy))
        return copy

    @invariant()
    def what_serves_answers(self):
        for version, copy in self.serving.items():
            assert self.registry.find("m", version).copy is copy
        if self.serving:
            assert self.registry.find("m").copy is self.serving[max(self.serving)]

    @invariant()
    def whoever_watches_knows_what_serves(self):
        assert self.mirrored.get("m") == self.registry.served("m")

    @invariant()
    def states_are_those_of_what_happened(self):
        leaving = {version for version, _ in self.idle}
        for entry in self.registry.index({"m": 1}):
            if entry.version is None:
                continue
            if entry.version in self.serving:
                expected = {("READY", None)}
            elif entry.version in self.loading:
                expected = {("LOADING", None)}
            else:
                expected = {("UNAVAILABLE", "unloaded"), ("UNAVAILABLE", "Internal: no")}
                if entry.version in leaving:
                    expected = {("UNLOADING", None), ("UNAVAILABLE", "Internal: no"), *expected}
            assert (entry.state, entry.reason) in expected

    @invariant()
    def nothing_leaves_for_ever(self):
        if not self.idle and not self.loading:
            assert all(entry.state != "UNLOADING" for entry in self.registry.index({"m": 1}))


RegistryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRegistryMachine = RegistryMachine.TestCase
