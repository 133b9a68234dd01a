"""Ensembles in the engine: loaded after their models, made anew, stopped and brought back with them."""

import asyncio
import logging
from functools import partial

import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, NotFoundError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.lifecycle.dependencies import Dependencies, find_circle
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.logs import Log, LogOptions
from tests.support.replies import Reply
from tests.support.repositories import touch_later, write_model

ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input {{ name: "INPUT" data_type: TYPE_INT32 dims: [4] }}
output {{ name: "OUTPUT" data_type: TYPE_INT32 dims: [4] }}
ensemble_scheduling {{ {steps} }}
"""
STEP = (
    'step {{ model_name: "{model}" model_version: {version} input_map {{ key: "INPUT" value: "{into}" }} '
    'output_map {{ key: "OUTPUT" value: "{out}" }} }}\n'
)


def write_ensemble(repository, name, *models, version=-1):
    """A chain of these models."""
    tensors = ["INPUT", *(f"t{index}" for index in range(1, len(models))), "OUTPUT"]
    steps = "".join(
        STEP.format(model=model, version=version, into=tensors[index], out=tensors[index + 1])
        for index, model in enumerate(models)
    )
    return write_model(repository, name, base=ENSEMBLE.format(steps=steps))


class Server:
    def __init__(self, repository, **options):
        self.repository = repository
        shared_memory = SharedMemoryRegistry()
        self.engine = Engine(
            EngineOptions(**{"model_repositories": (str(repository),), "model_control_mode": "explicit", **options}),
            load_backend,
            partial(Model.load, resolve_memory=shared_memory.resolve),
            shared_memory=shared_memory,
            settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
            resolve_memory=shared_memory.resolve,
        )

    async def load(self, name, **options):
        await self.engine.load_model(name, **options)

    async def unload(self, name, **options):
        await self.engine.unload_model(name, **options)
        await self.engine._loader.settle()

    async def refusal(self, name):
        with pytest.raises(InvalidArgumentError) as caught:
            await self.load(name)
        return caught.value.message.removeprefix(f"load failed for model '{name}': ").removesuffix("\n")

    async def states(self):
        index = await self.engine.repository_index()
        return {entry.name: entry.state for entry in index if entry.state is not None}

    def request(self, name):
        array = np.array([[1, 2, 3, 4]], np.int32)
        request = InferenceRequest(name, {"INPUT": Tensor.from_numpy("INPUT", array)}, Reply())
        self.engine.submit(request)
        return request

    async def infer(self, name):
        response = await self.request(name).sink.response()
        return response.outputs[0].as_numpy().tolist()


@pytest.fixture
async def server(tmp_path):
    server = Server(tmp_path)
    for name in ("a", "b"):
        write_model(tmp_path, name)
    write_ensemble(tmp_path, "pipeline", "a", "b")
    await server.engine.start()
    yield server
    await server.engine.stop()


@pytest.fixture(autouse=True)
def _all_logs(caplog):
    caplog.set_level(logging.INFO, "charonia_runtime")


async def test_an_ensemble_is_loaded_after_its_models(server):
    await server.load("pipeline")

    assert await server.states() == dict.fromkeys(("a", "b", "pipeline"), "READY")
    assert await server.infer("pipeline") == [[1, 2, 3, 4]]
    (own,) = await server.engine.statistics("pipeline")
    (composing,) = await server.engine.statistics("a")
    assert (own.statistics.success.count, composing.statistics.success.count) == (1, 1)


@pytest.mark.parametrize("mode", ["none", "poll"])
async def test_every_model_is_loaded_once_at_the_start(server, tmp_path, caplog, mode):
    write_ensemble(tmp_path, "0_outer", "pipeline", "a")
    write_model(tmp_path, "broken", base='backend: "nothing"')
    write_ensemble(tmp_path, "1_hopeless", "broken")
    other = Server(tmp_path, model_control_mode=mode, exit_on_error=False)
    await other.engine.start()

    states = await other.states()
    assert states == {
        **dict.fromkeys(("a", "b", "pipeline", "0_outer"), "READY"),
        **dict.fromkeys(("broken", "1_hopeless"), "UNAVAILABLE"),
    }
    assert await other.infer("0_outer") == [[1, 2, 3, 4]]
    assert sorted(line for line in caplog.messages if line.startswith("loading: ")) == [
        "loading: 0_outer:1", "loading: a:1", "loading: b:1", "loading: broken:1", "loading: pipeline:1",
    ]  # fmt: skip
    await other.engine.stop()


# --- refusals ---


async def test_models_that_are_not_there(server, tmp_path):
    write_ensemble(tmp_path, "e", "a", "nope", "nowhere")

    assert await server.refusal("e") == "ensemble e contains models that are not available or ambiguous: nope, nowhere"
    assert (await server.states())["e"] == "UNAVAILABLE"


async def test_models_that_cannot_be_loaded(server, tmp_path):
    write_model(tmp_path, "broken", base='backend: "nothing"')
    write_ensemble(tmp_path, "e", "a", "broken")
    text = await server.refusal("e")

    start = (
        "ensemble 'e' depends on 'broken' which has no loaded version. Model 'broken' loading failed with error: "
        "version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library"
    )
    assert text.startswith(start)
    assert text.endswith(";")
    write_model(tmp_path, "broken")
    await server.load("broken")
    assert (await server.states())["e"] == "READY"


async def test_a_version_that_is_not_loaded(server, tmp_path):
    write_ensemble(tmp_path, "e", "a", version=2)
    assert await server.refusal("e") == "ensemble 'e' depends on 'a' whose required version 2 is not loaded."


async def test_circles(server, tmp_path):
    for name, needed in (("x", "y"), ("y", "z"), ("z", "x"), ("self", "self")):
        write_ensemble(tmp_path, name, needed)

    assert await server.refusal("x") == "circular dependency between ensembles: z -> ... -> y -> z"
    assert await server.refusal("self") == "circular dependency between ensembles: self -> ... -> self -> self"
    write_ensemble(tmp_path, "z", "a")
    await server.load("x")
    assert await server.infer("x") == [[1, 2, 3, 4]]


async def test_an_ensemble_that_does_not_fit(server, tmp_path):
    write_model(tmp_path, "b", base='backend: "identity" max_batch_size: 4' + SMALL)
    assert await server.refusal("pipeline") == (
        "ensemble pipeline allows maximum batch size 8, but it contains model b which only allows maximum batch size "
        "to be 4"
    )


SMALL = """
input { name: "INPUT" data_type: TYPE_INT32 dims: [4] }
output { name: "OUTPUT" data_type: TYPE_INT32 dims: [4] }
"""

# --- unload ---


async def test_an_ensemble_stops_and_comes_back_with_its_models(server):
    await server.load("pipeline")
    await server.engine.unload_model("b")
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'pipeline' has no available versions$"):
        server.request("pipeline")
    await server.engine._loader.settle()
    assert await server.states() == {"a": "READY", "b": "UNAVAILABLE", "pipeline": "UNAVAILABLE"}

    await server.load("b")
    assert await server.infer("pipeline") == [[1, 2, 3, 4]]
    await server.unload("pipeline")
    await server.unload("b")
    await server.load("b")
    assert (await server.states())["pipeline"] == "UNAVAILABLE"


async def test_models_outlive_the_requests_of_their_ensembles(server):
    await server.load("pipeline")
    request = server.request("pipeline")
    await server.engine.unload_model("b")
    await request.sink.response()
    await server.engine._loader.settle()


async def test_unloading_with_dependents(server, tmp_path):
    write_ensemble(tmp_path, "outer", "pipeline")
    write_ensemble(tmp_path, "other", "b")
    await server.load("a")
    await server.load("outer")
    await server.load("other")
    await server.unload("outer", unload_dependents=True)

    assert await server.states() == {
        "a": "READY", "b": "READY", "other": "READY", "outer": "UNAVAILABLE", "pipeline": "UNAVAILABLE",
    }  # fmt: skip
    await server.unload("other", unload_dependents=True)
    assert (await server.states())["b"] == "UNAVAILABLE"


async def test_unloading_leaves_the_models(server):
    await server.load("pipeline")
    await server.unload("pipeline")
    assert await server.states() == {"a": "READY", "b": "READY", "pipeline": "UNAVAILABLE"}


# --- reload ---


async def test_an_ensemble_is_made_anew_with_its_models(server, tmp_path):
    write_ensemble(tmp_path, "outer", "pipeline")
    await server.load("outer")
    await server.infer("outer")
    before = {name: server.engine._registry.find(name).copy for name in ("a", "b", "pipeline", "outer")}
    touch_later(tmp_path / "b" / "config.pbtxt")
    (tmp_path / "b" / "1" / "weights").write_bytes(b"1")
    await server.load("b")
    await server.engine._loader.settle()

    after = {name: server.engine._registry.find(name).copy for name in before}
    assert [name for name in before if before[name] is after[name]] == ["a"]
    assert after["pipeline"].composing == (after["a"], after["b"])
    assert await server.infer("outer") == [[1, 2, 3, 4]]


async def test_an_unmodified_ensemble_is_left_alone(server):
    await server.load("pipeline")
    before = server.engine._registry.find("pipeline").copy
    await server.load("pipeline")
    await server.load("a")
    assert server.engine._registry.find("pipeline").copy is before


async def test_a_model_that_fits_no_more_stops_the_ensemble(server, tmp_path):
    await server.load("pipeline")
    write_model(tmp_path, "b", base='backend: "identity" max_batch_size: 4' + SMALL)
    touch_later(tmp_path / "b" / "config.pbtxt")
    await server.load("b")
    await server.engine._loader.settle()
    assert await server.states() == {"a": "READY", "b": "READY", "pipeline": "UNAVAILABLE"}


async def test_a_model_that_fails_to_reload_changes_nothing(server, tmp_path):
    await server.load("pipeline")
    before = server.engine._registry.find("pipeline").copy
    write_model(tmp_path, "b", base='backend: "nothing"')
    touch_later(tmp_path / "b" / "config.pbtxt")
    with pytest.raises(InvalidArgumentError):
        await server.load("b")
    assert server.engine._registry.find("pipeline").copy is before
    assert await server.infer("pipeline") == [[1, 2, 3, 4]]


async def test_reloads_and_requests_at_the_same_time(server, tmp_path):
    await server.load("pipeline")
    stop = asyncio.Event()

    async def ask():
        count = 0
        while not stop.is_set():
            assert await server.infer("pipeline") == [[1, 2, 3, 4]]
            count += 1
        return count

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    for round_number in range(10):
        (tmp_path / "ab"[round_number % 2] / "1" / "weights").write_bytes(bytes(round_number + 1))
        touch_later(tmp_path / "ab"[round_number % 2] / "config.pbtxt")
        await asyncio.gather(server.load("a"), server.load("b"), server.load("pipeline"))
    stop.set()
    assert all(await asyncio.gather(*asking))
    await server.engine._loader.settle()
    assert len(server.engine._loader.copies) == 3


async def test_a_failing_poll_of_a_model_is_no_load_failure(server, tmp_path):
    with pytest.raises(InternalError, match="failed to poll"):
        await server.load("nope")
    write_ensemble(tmp_path, "e", "nope")
    assert "not available or ambiguous: nope" in await server.refusal("e")


# --- dependencies ---


def test_what_nothing_needs_is_told_once():
    dependencies = Dependencies()
    dependencies.know("one", ("a", "b"))
    dependencies.know("two", ("b",))
    dependencies.ask_for("a")
    assert dependencies.dependents("b") == ("one", "two")
    assert dependencies.forget("one") == ()
    assert dependencies.forget("two") == ("b",)
    assert dependencies.forget("two") == ()
    dependencies.know("two", ("b",))
    dependencies.know("two", ())
    assert dependencies.dependents("b") == ()


def test_circles_are_found_where_they_close():
    assert find_circle({"a": ("b",), "b": ("c",), "c": ("b",)}, "a") is None
    assert find_circle({"a": ("b",), "b": ("c",), "c": ("a",)}, "a") == "c"
    assert find_circle({"a": ("a",)}, "a") == "a"
