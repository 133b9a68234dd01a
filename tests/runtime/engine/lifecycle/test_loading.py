import asyncio
import logging
import threading

import pytest

from charonia_runtime.core.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.loading import ModelLoader
from charonia_runtime.engine.lifecycle.reading import Override
from charonia_runtime.engine.registry import ModelRegistry
from tests.support.models import FakeModels, FakeReader, RecordingSink


class Server:
    """A loader with everything around it faked."""

    def __init__(self, **options):
        self.registry = ModelRegistry()
        self.reader = FakeReader()
        self.models = FakeModels()
        self.loader = ModelLoader(self.registry, self.reader, self.models, FileThreads(), **options)

    def states(self, name="simple"):
        return {entry.version: entry.state for entry in self.registry.index({name: 1}) if entry.version is not None}

    def reason(self, version, name="simple"):
        return next(entry.reason for entry in self.registry.index({name: 1}) if entry.version == version)

    def serving(self, version=-1, name="simple"):
        return self.registry.find(name, version).copy

    def send(self, name="simple"):
        request = InferenceRequest(name, {}, RecordingSink())
        self.registry.find(name).copy.submit(request)
        return request


@pytest.fixture
async def server():
    return Server()


@pytest.fixture(autouse=True)
def _all_logs(caplog):
    caplog.set_level(logging.DEBUG, "charonia_runtime")


# --- first loads ---


async def test_every_selected_version_serves(server, caplog):
    server.reader.put("simple", (1, 2, 3), selected=(1, 3))
    await server.loader.load("simple")

    assert server.states() == {1: "READY", 3: "READY"}
    assert caplog.messages == ["loading: simple:1", "loading: simple:3", "successfully loaded 'simple'"]


async def test_a_model_that_cannot_be_read(server, caplog):
    with pytest.raises(InternalError, match=r"^failed to load 'simple', failed to poll from model repository$"):
        await server.loader.load("simple")

    assert caplog.messages == ["failed to poll model 'simple': model not found in any model repository."]
    assert server.registry.names() == []


async def test_a_model_without_versions(server, caplog):
    server.reader.put("simple", ())
    text = (
        "at least one version must be available under the version policy of model 'simple'. A model needs a folder for "
        "each version, such as '/repository/simple/1'; that of an ensemble may be empty"
    )

    with pytest.raises(InvalidArgumentError) as caught:
        await server.loader.load("simple")

    assert caught.value.message == f"load failed for model 'simple': {text}\n"
    assert caplog.messages == [f"failed to load model 'simple': {text}"]
    with pytest.raises(NotFoundError, match="has no available versions"):
        server.registry.find("simple")
    assert not server.registry.all_settled()


async def test_versions_are_one_unit(server, caplog):
    server.reader.put("simple", (1, 2, 3))
    server.models.failures = {("simple", 2): InternalError("no"), ("simple", 3): InvalidArgumentError("bad")}

    with pytest.raises(InvalidArgumentError) as caught:
        await server.loader.load("simple")
    await server.loader.settle()

    assert caught.value.message == (
        "load failed for model 'simple': version 2 is at UNAVAILABLE state: Internal: no;"
        "version 3 is at UNAVAILABLE state: Invalid argument: bad;\n"
    )
    assert server.states() == dict.fromkeys((1, 2, 3), "UNAVAILABLE")
    assert [server.reason(version) for version in (1, 2, 3)] == ["unloaded", "Internal: no", "Invalid argument: bad"]
    assert server.models.newest("simple", 1).closed
    assert caplog.messages[3:] == [
        "failed to load 'simple' version 2: Internal: no",
        "failed to load 'simple' version 3: Invalid argument: bad",
        "failed to load 'simple'",
        "successfully unloaded 'simple' version 1",
    ]


async def test_an_unexpected_error_fails_the_load_only(server):
    server.reader.put("simple")
    server.models.failures = {("simple", 1): ZeroDivisionError("division by zero")}

    with pytest.raises(InvalidArgumentError, match=r"Internal: ZeroDivisionError: division by zero;\n$"):
        await server.loader.load("simple")

    server.models.failures = {}
    await server.loader.load("simple")
    assert server.states() == {1: "READY"}


async def test_failing_loads_are_retried():
    server = Server(retries=2)
    server.reader.put("simple")
    server.models.failures = {("simple", 1): InternalError("no")}

    with pytest.raises(InvalidArgumentError):
        await server.loader.load("simple")

    assert server.models.attempts == [("simple", 1)] * 3


async def test_as_many_loads_run_as_allowed():
    server = Server(parallel=2)
    names = ["a", "b", "c", "d"]
    gates = [server.models.hold(name, 1) for name in names]
    for name in names:
        server.reader.put(name)
    loads = [asyncio.create_task(server.loader.load(name)) for name in names]
    await server.models.wait_for_attempts(2)
    for gate in gates:
        gate.set()
    await asyncio.gather(*loads)

    assert server.models.most_running == 2


async def test_a_load_goes_on_when_nobody_waits_for_it(server):
    server.reader.put("simple")
    gate = server.models.hold("simple", 1)
    load = asyncio.create_task(server.loader.load("simple"))
    await server.models.wait_for_attempts(1)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    gate.set()
    await server.loader.settle()

    assert server.states() == {1: "READY"}


async def test_a_repository_that_breaks_while_it_is_read(server, monkeypatch, caplog):
    def fail(name, override=None):
        raise MemoryError

    monkeypatch.setattr(server.loader, "_read", fail)
    with pytest.raises(InternalError, match="failed to poll from model repository"):
        await server.loader.load("simple")

    assert caplog.messages == ["failed to poll model 'simple'"]


# --- reloads ---


async def test_an_unmodified_model_is_left_alone(server, caplog):
    server.reader.put("simple")
    await server.loader.load("simple")
    caplog.clear()
    await server.loader.load("simple")

    assert server.models.attempts == [("simple", 1)]
    assert caplog.messages == []


async def test_a_reload_is_a_swap_without_a_gap(server):
    server.reader.put("simple")
    await server.loader.load("simple")
    old = server.serving()
    request = server.send()

    server.reader.put("simple", others=2)
    gate = server.models.hold("simple", 1)
    load = asyncio.create_task(server.loader.load("simple"))
    await server.models.wait_for_attempts(2)
    assert server.states() == {1: "READY"}
    assert server.serving() is old

    gate.set()
    await load
    new = server.serving()
    assert new is not old
    assert not old.closed, "a request is in flight"

    old.answer(request)
    await server.loader.settle()
    assert old.closed
    assert len(request.sink.responses) == 1
    assert server.loader.copies == [new]


async def test_a_failed_reload_keeps_the_old_copy(server):
    server.reader.put("simple", (1, 2))
    await server.loader.load("simple")
    old = [server.serving(1), server.serving(2)]
    server.reader.put("simple", (1, 2), others=2)
    server.models.failures = {("simple", 2): InternalError("no")}

    for _ in range(2):  # the second time as well: it is tried again
        with pytest.raises(InvalidArgumentError, match=r"version 2 is at UNAVAILABLE state: Internal: no;\n$"):
            await server.loader.load("simple")
        await server.loader.settle()

        assert server.states() == {1: "READY", 2: "READY"}
        assert [server.serving(1), server.serving(2)] == old
        assert server.registry.all_settled()
        assert sorted(server.loader.copies, key=lambda copy: copy.version) == old

    server.models.failures = {}
    await server.loader.load("simple")
    assert server.serving(2) is not old[1]


async def test_only_the_changed_version_is_loaded_anew(server):
    server.reader.put("simple", {1: 1, 2: 1})
    await server.loader.load("simple")
    kept, replaced = server.serving(1), server.serving(2)
    server.reader.put("simple", {1: 1, 2: 2})
    await server.loader.load("simple")

    assert server.serving(1) is kept
    assert server.serving(2) is not replaced
    assert len(kept.updates) == 1


async def test_a_new_version_replaces_the_one_that_is_no_longer_selected(server, caplog):
    server.reader.put("simple", (1,))
    await server.loader.load("simple")
    caplog.clear()
    server.reader.put("simple", (1, 2), selected=(2,))
    await server.loader.load("simple")
    await server.loader.settle()

    assert server.states() == {1: "UNAVAILABLE", 2: "READY"}
    assert server.reason(1) == "unloaded"
    assert caplog.messages == [
        "loading: simple:2", "successfully loaded 'simple'", "successfully unloaded 'simple' version 1",
    ]  # fmt: skip


async def test_a_failing_new_version_leaves_the_old_one(server):
    server.reader.put("simple", (1,))
    await server.loader.load("simple")
    server.reader.put("simple", (1, 2), selected=(2,))
    server.models.failures = {("simple", 2): InternalError("no")}
    with pytest.raises(InvalidArgumentError):
        await server.loader.load("simple")

    assert server.states() == {1: "READY", 2: "UNAVAILABLE"}
    assert not server.registry.all_settled()


async def test_instances_are_updated_in_place(server, caplog):
    server.reader.put("simple")
    await server.loader.load("simple")
    copy = server.serving()
    caplog.clear()
    polled = server.reader.put("simple", config_time=2, document={"instance_group": [{"count": 3}]})
    await server.loader.load("simple")

    assert server.serving() is copy
    assert copy.updates == [polled.config]
    assert server.registry.find("simple").served.config is polled.config
    assert caplog.messages == ["loading: simple:1", "successfully loaded 'simple'"]


async def test_a_model_that_cannot_be_updated_in_place_is_reloaded(server):
    server.reader.put("simple")
    await server.loader.load("simple")
    copy = server.serving()
    copy.in_place = False
    server.reader.put("simple", config_time=2)
    await server.loader.load("simple")
    await server.loader.settle()

    assert server.serving() is not copy
    assert copy.closed


async def test_a_directory_that_vanished_leaves_the_model_serving(server):
    server.reader.put("simple")
    await server.loader.load("simple")
    server.reader.remove("simple")
    with pytest.raises(InternalError):
        await server.loader.load("simple")

    assert server.states() == {1: "READY"}


# --- overrides ---


async def test_a_configuration_override_lasts_until_the_files_change(server):
    server.reader.put("simple")
    await server.loader.load("simple", Override('{"a": 1}'))
    overridden = server.serving()
    assert overridden.config.document == {"override": '{"a": 1}'}

    await server.loader.load("simple")
    assert server.serving() is overridden

    server.reader.put("simple", config_time=2)
    await server.loader.load("simple")
    assert server.serving().config.document == {"name": "simple"}


async def test_the_same_override_again_is_an_update(server):
    server.reader.put("simple")
    await server.loader.load("simple", Override("{}"))
    copy = server.serving()
    await server.loader.load("simple", Override("{}"))

    assert server.serving() is copy
    assert len(copy.updates) == 1


async def test_override_files_live_as_long_as_the_model(server):
    await server.loader.load("simple", Override("{}", {"file:1/model.py": b"pass"}))
    path = server.loader._copies.origin(server.serving()).entry.directory
    assert (path / "1" / "model.py").read_bytes() == b"pass"

    with pytest.raises(InternalError):
        await server.loader.load("simple")  # not in a repository
    assert path.exists()

    request = server.send()
    await server.loader.unload("simple")
    assert path.exists()

    server.models.newest("simple", 1).answer(request)
    await server.loader.settle()
    assert not path.parent.exists()


async def test_override_files_of_a_failed_load_are_removed(server, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server.models.failures = {("simple", 1): InternalError("no")}
    with pytest.raises(InvalidArgumentError):
        await server.loader.load("simple", Override("{}", {"file:1/model.py": b"pass"}))

    assert list(tmp_path.iterdir()) == []


async def test_override_files_go_when_the_repository_takes_over(server, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await server.loader.load("simple", Override("{}", {"file:1/model.py": b"pass"}))
    server.reader.put("simple")
    await server.loader.load("simple")
    await server.loader.settle()

    assert server.serving().config.document == {"name": "simple"}
    assert list(tmp_path.iterdir()) == []


# --- unloads ---


async def test_an_unload_returns_at_once_and_requests_finish(server, caplog):
    server.reader.put("simple")
    await server.loader.load("simple")
    copy = server.serving()
    request = server.send()
    caplog.clear()
    await server.loader.unload("simple")

    assert server.states() == {1: "UNLOADING"}
    with pytest.raises(NotFoundError, match="has no available versions"):
        server.send()

    copy.answer(request)
    await server.loader.settle()
    assert server.states() == {1: "UNAVAILABLE"}
    assert copy.closed
    assert caplog.messages == ["successfully unloaded 'simple' version 1"]


async def test_unloading_what_is_not_loaded_is_no_error(server):
    await server.loader.unload("simple")

    assert server.registry.names() == []


async def test_unloading_a_failed_model_keeps_its_reason(server):
    server.reader.put("simple")
    server.models.failures = {("simple", 1): InternalError("no")}
    with pytest.raises(InvalidArgumentError):
        await server.loader.load("simple")
    await server.loader.unload("simple")

    assert server.reason(1) == "Internal: no"

    await server.loader.unload("simple", forget=True)
    assert server.reason(1) == "unloaded"


async def test_a_load_while_unloading_does_not_wait(server):
    server.reader.put("simple")
    await server.loader.load("simple")
    old, request = server.serving(), server.send()
    await server.loader.unload("simple")
    await server.loader.load("simple")

    assert server.states() == {1: "READY"}
    old.answer(request)
    await server.loader.settle()
    assert server.states() == {1: "READY"}
    assert old.closed


async def test_operations_on_one_model_follow_each_other(server):
    server.reader.put("simple")
    gate = server.models.hold("simple", 1)
    load = asyncio.create_task(server.loader.load("simple"))
    await server.models.wait_for_attempts(1)
    unload = asyncio.create_task(server.loader.unload("simple"))
    other = server.reader.put("other")
    await server.loader.load(other.name)
    assert server.states("other") == {1: "READY"}
    assert server.loader.busy("simple")
    assert not unload.done()

    gate.set()
    await asyncio.gather(load, unload)
    await server.loader.settle()
    assert server.states() == {1: "UNAVAILABLE"}


async def test_a_copy_that_cannot_be_closed_is_gone_all_the_same(server, monkeypatch, caplog):
    server.reader.put("simple")
    await server.loader.load("simple")

    async def fail():
        raise OSError("device lost")

    monkeypatch.setattr(server.serving(), "close", fail)
    await server.loader.unload("simple")
    await server.loader.settle()

    assert server.states() == {1: "UNAVAILABLE"}
    assert "failed to unload 'simple' version 1" in caplog.messages


async def test_unloading_everything_is_final(server):
    for name in ("a", "b"):
        server.reader.put(name)
        await server.loader.load(name)
    await server.loader.unload_all()

    assert server.loader.copies == []
    with pytest.raises(UnavailableError, match=r"^Server exiting$"):
        await server.loader.load("a")


async def test_what_is_still_loading_is_unloaded_as_well(server):
    server.reader.put("simple")
    gate = server.models.hold("simple", 1)
    load = asyncio.create_task(server.loader.load("simple"))
    await server.models.wait_for_attempts(1)
    waiting = asyncio.create_task(server.loader.load("simple"))
    unload = asyncio.create_task(server.loader.unload_all())
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(load, unload)

    assert server.models.newest("simple", 1).closed
    assert server.loader.copies == []
    with pytest.raises(UnavailableError):
        await waiting


async def test_a_load_that_is_being_read_when_everything_is_unloaded(server):
    """The registry does not know the model yet."""
    server.reader.put("simple")
    reading, may_read = threading.Event(), threading.Event()
    read = server.loader._read

    def slow(name, override=None):
        reading.set()
        assert may_read.wait(10)
        return read(name, override)

    server.loader._read = slow
    load = asyncio.create_task(server.loader.load("simple"))
    await asyncio.to_thread(reading.wait, 10)
    unload = asyncio.create_task(server.loader.unload_all())
    await asyncio.sleep(0)
    may_read.set()
    await asyncio.gather(load, unload)

    assert server.models.newest("simple", 1).closed
    assert server.loader.copies == []
