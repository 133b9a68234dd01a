"""
`--model-namespacing`: repositories with models of the same name.

Expected answers are those of Triton 2.51 for the same repositories and requests.
"""

import logging
import shutil
from functools import partial

import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, NotFoundError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.cache_options import CacheOptions
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.logs import Log, LogOptions
from tests.support.replies import Reply
from tests.support.repositories import write_ensemble_of, write_model

CACHED = "response_cache { enable: true }"
OVERRIDE = """{
    "backend": "identity", "max_batch_size": 8,
    "input": [{"name": "INPUT", "data_type": "TYPE_INT32", "dims": [4]}],
    "output": [{"name": "OUTPUT", "data_type": "TYPE_INT32", "dims": [4]}]
}"""
AMBIGUOUS = (
    "There are {} identifiers of model '{}' in global map, model namespace must be provided to resolve ambiguity."
)


class Server:
    def __init__(self, *repositories, namespaces=(), **options):
        shared_memory = SharedMemoryRegistry()
        self.engine = Engine(
            EngineOptions(
                **{"model_repositories": tuple(map(str, repositories)), "model_namespacing": True, **options}
            ),
            load_backend,
            partial(Model.load, resolve_memory=shared_memory.resolve),
            shared_memory=shared_memory,
            settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
            resolve_memory=shared_memory.resolve,
            cache=CacheOptions(cache_config=("local,size=1000000",)).make("/nowhere", {}),
            namespaces=namespaces,
        )

    async def infer(self, name):
        array = np.array([[1, 2, 3, 4]], np.int32)
        reply = Reply()
        self.engine.submit(InferenceRequest(name, {"INPUT": Tensor.from_numpy("INPUT", array)}, reply))
        response = await reply.response()
        return response.outputs[0].as_numpy().tolist()

    async def refusal(self, name):
        with pytest.raises(InferenceError) as caught:
            await self.infer(name)
        return caught.value.message

    async def counts(self):
        """Requests that each model answered, without those that answered none."""
        found = await self.engine.statistics()
        return {f"{one.namespace}::{one.name}": n for one in found if (n := one.statistics.success.count)}

    async def index(self, state="READY"):
        return [entry.name for entry in await self.engine.repository_index() if entry.state == state]

    async def step_namespaces(self, name):
        document = await self.engine.model_config(name)
        return [step["model_namespace"] for step in document["ensemble_scheduling"]["step"]]

    async def settle(self):
        await self.engine._loader.settle()


@pytest.fixture(autouse=True)
def _all_logs(caplog):
    caplog.set_level(logging.INFO, "charonia_runtime")


@pytest.fixture
def repositories(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    for repository in (a, b):
        write_model(repository, "m", config=CACHED)
        write_ensemble_of(repository, "ens", "m")
    write_model(a, "only_a")
    write_model(b, "only_b")
    write_ensemble_of(a, "ens_a", "m")
    write_ensemble_of(a, "ens_cross", "only_b")
    write_ensemble_of(b, "ens_b", "m")
    return a, b


@pytest.fixture
async def server(repositories):
    a, b = repositories
    server = Server(b, a)
    await server.engine.start()
    yield server
    await server.engine.stop()


@pytest.fixture
async def explicit(repositories):
    server = Server(*repositories, model_control_mode="explicit")
    await server.engine.start()
    yield server
    await server.engine.stop()


async def test_the_index_lists_the_repositories_one_after_the_other(server):
    assert await server.index() == ["ens", "ens_a", "ens_cross", "m", "only_a", "ens", "ens_b", "m", "only_b"]


async def test_ambiguous_names_are_refused(server):
    engine = server.engine

    for ask in (server.infer, engine.model_metadata, engine.model_config, partial(engine.model_metadata, version=3)):
        with pytest.raises(InvalidArgumentError) as caught:
            await ask("m")
        assert caught.value.message == AMBIGUOUS.format(2, "m")
    assert await server.refusal("ens") == AMBIGUOUS.format(2, "ens")
    assert not await engine.is_model_ready("m")
    with pytest.raises(InvalidArgumentError, match=r"^requested model 'm' is not available$"):
        await engine.statistics("m")
    assert await engine.is_ready()


async def test_steps_mean_the_models_of_their_own_repository_first(server, repositories):
    a, b = map(str, repositories)

    for name in ("only_a", "ens_a", "ens_b", "ens_b", "ens_cross"):
        assert await server.infer(name) == [[1, 2, 3, 4]]

    assert await server.counts() == {
        f"{a}::ens_a": 1, f"{a}::ens_cross": 1, f"{a}::m": 1, f"{a}::only_a": 1,
        f"{b}::ens_b": 2, f"{b}::m": 2, f"{b}::only_b": 1,
    }  # fmt: skip
    assert await server.step_namespaces("ens_a") == [a]
    assert await server.step_namespaces("ens_b") == [b]
    assert await server.step_namespaces("ens_cross") == [b]


async def test_models_of_one_name_do_not_share_their_cached_answers(server):
    for name in ("ens_a", "ens_b", "ens_b"):
        await server.infer(name)

    lookups = [
        (one.statistics.cache_hit.count, one.statistics.cache_miss.count)
        for one in await server.engine.statistics()
        if one.name == "m"
    ]
    assert lookups == [(0, 1), (1, 1)]


async def test_the_log_has_identifiers(repositories, caplog):
    server = Server(*repositories)
    await server.engine.start()

    for repository in repositories:
        assert f"loading: {repository}::m:1" in caplog.messages
        assert f"successfully loaded '{repository}::m'" in caplog.messages
        assert any(f"| {repository}::ens " in message for message in caplog.messages)
    await server.engine.stop()


async def test_load_and_unload_mean_every_model_of_the_name(explicit):
    engine = explicit.engine
    assert await explicit.index() == []
    assert await explicit.index(None) == ["ens", "ens_a", "ens_cross", "m", "only_a", "ens", "ens_b", "m", "only_b"]
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'm' is not found$"):
        await explicit.infer("m")

    await engine.load_model("m")
    assert await explicit.refusal("m") == AMBIGUOUS.format(2, "m")
    await engine.unload_model("m")
    await explicit.settle()
    assert await explicit.index("UNAVAILABLE") == ["m", "m"]
    assert await explicit.refusal("m") == "Identifier of model 'm' is not found in global map"

    await engine.load_model("ens")
    assert await explicit.index() == ["ens", "m", "ens", "m"]
    await engine.unload_model("ens", unload_dependents=True)
    await explicit.settle()
    assert await explicit.index() == []


async def test_a_name_of_which_one_model_is_loaded_is_clear(explicit, repositories):
    await explicit.engine.load_model("ens_b")

    assert await explicit.infer("m") == [[1, 2, 3, 4]]
    assert await explicit.counts() == {f"{repositories[1]}::m": 1}


async def test_a_model_that_fails_is_named_and_does_not_stop_its_namesake(explicit, repositories):
    a, b = repositories
    write_model(a, "br", base='backend: "nothing"')
    write_model(b, "br")

    with pytest.raises(InvalidArgumentError, match=f"^load failed for model '{a}::br': version 1 is at UNAVAILABLE"):
        await explicit.engine.load_model("br")

    assert await explicit.index() == ["br"]
    assert await explicit.refusal("br") == AMBIGUOUS.format(2, "br")


async def test_files_of_a_load_request_make_a_model_beside_those_of_the_repositories(explicit):
    engine = explicit.engine
    await engine.load_model("only_b")
    await engine.load_model("only_b", config=OVERRIDE, files={"file:1/x": b""})
    assert await explicit.refusal("only_b") == AMBIGUOUS.format(2, "only_b")

    await engine.load_model("fresh", config=OVERRIDE, files={"file:1/x": b""})
    assert await explicit.infer("fresh") == [[1, 2, 3, 4]]


async def test_models_to_load_at_the_start_are_named_without_their_repository(repositories):
    server = Server(*repositories, model_control_mode="explicit", load_model=("m",))
    await server.engine.start()

    assert await server.index() == ["m", "m"]
    await server.engine.stop()


async def test_a_step_that_several_other_repositories_have_is_refused(repositories, tmp_path):
    write_ensemble_of(tmp_path / "c", "ens_amb", "m")
    server = Server(*repositories, tmp_path / "c", model_control_mode="explicit")
    await server.engine.start()

    text = r"ensemble ens_amb contains models that are not available or ambiguous: m\n$"
    with pytest.raises(InvalidArgumentError, match=text):
        await server.engine.load_model("ens_amb")
    await server.engine.stop()


async def test_polls_follow_models_that_come_and_go(tmp_path):
    p, q = tmp_path / "p", tmp_path / "q"
    write_model(p, "m")
    write_model(q, "m")
    write_model(q, "x")
    write_ensemble_of(p, "ensp", "x")
    server = Server(p, q, model_control_mode="poll")
    await server.engine.start()
    assert await server.refusal("m") == AMBIGUOUS.format(2, "m")
    assert await server.step_namespaces("ensp") == [str(q)]

    shutil.rmtree(p / "m")
    write_model(p, "x")
    await server.engine._poller.poll()
    assert await server.infer("m") == [[1, 2, 3, 4]]
    assert await server.step_namespaces("ensp") == [str(p)]
    assert await server.infer("ensp") == [[1, 2, 3, 4]]
    assert await server.counts() == {f"{q}::m": 1, f"{p}::ensp": 1, f"{p}::x": 1}

    shutil.rmtree(p / "x")
    await server.engine._poller.poll()
    assert await server.step_namespaces("ensp") == [str(q)]
    assert await server.infer("ensp") == [[1, 2, 3, 4]]
    await server.engine.stop()


async def test_namespaces_are_the_repositories_as_they_were_given(repositories):
    server = Server(*repositories, namespaces=("s3://bucket/b", "s3://bucket/a"))
    await server.engine.start()

    assert await server.index() == ["ens", "ens_b", "m", "only_b", "ens", "ens_a", "ens_cross", "m", "only_a"]
    assert await server.step_namespaces("ens_cross") == ["s3://bucket/a"]
    await server.engine.stop()


async def test_without_the_flag_steps_have_no_namespace(tmp_path):
    write_model(tmp_path, "m")
    directory = write_ensemble_of(tmp_path, "ens", "m")
    path = directory / "config.pbtxt"
    path.write_text(path.read_text().replace('model_name: "m"', 'model_name: "m" model_namespace: "whatever"'))
    server = Server(tmp_path, model_namespacing=False)
    await server.engine.start()

    assert await server.step_namespaces("ens") == [""]
    assert await server.infer("ens") == [[1, 2, 3, 4]]
    await server.engine.stop()
