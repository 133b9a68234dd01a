import asyncio
import json
import logging
import re
import shutil
from functools import partial

import numpy as np
import pytest
from blockbuster import blockbuster_ctx

from charonia_runtime import __version__
from charonia_runtime.backends import load_backend
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from charonia_runtime.core.request import InferenceRequest, SequenceId
from charonia_runtime.core.server import IndexEntry, InferenceServer, ServerMetadata, TensorMetadata
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.extensions import EXTENSIONS
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.logs import Log, LogOptions
from tests.support.replies import Reply
from tests.support.repositories import touch_later, write_model

NO_POLL = "explicit model load / unload is not allowed if polling is enabled"
CONFIG = {
    "backend": "identity",
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
}


@pytest.fixture(autouse=True)
def _all_logs(caplog):
    caplog.set_level(logging.INFO, "charonia_runtime")


@pytest.fixture(autouse=True)
def _no_blocking_calls():
    """The engine must not block the event loop; a test's own file work is its own business."""
    with blockbuster_ctx("charonia_runtime") as blockbuster:
        yield blockbuster


@pytest.fixture
def make_engine(tmp_path):
    def make(*, first_responses=False, **options) -> Engine:
        shared_memory = SharedMemoryRegistry()
        return Engine(
            EngineOptions(**{"model_repositories": (str(tmp_path),), **options}),
            load_backend,
            partial(Model.load, resolve_memory=shared_memory.resolve),
            shared_memory=shared_memory,
            settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
            first_responses=first_responses,
        )

    return make


@pytest.fixture
async def explicit(make_engine, tmp_path):
    """An engine in explicit mode that has loaded `simple`."""
    write_model(tmp_path, "simple")
    engine = make_engine(model_control_mode="explicit", load_model=("simple",))
    await engine.start()
    yield engine
    await engine.stop()


def a_request(name="simple", values=(1, 2, 3, 4), **changes):
    array = np.array([values], np.int32)
    return InferenceRequest(name, {"INPUT": Tensor.from_numpy("INPUT", array)}, Reply(), **changes)


async def infer(engine, **changes):
    request = a_request(**changes)
    reply = request.sink
    engine.submit(request)
    return await reply.response()


async def unloaded(engine, name="simple"):
    await engine.unload_model(name)
    await engine._loader.settle()


# --- what metrics need ---


async def test_loads_are_timed(explicit):
    (entry,) = await explicit.statistics()

    assert 0 < entry.statistics.load_ns < 60e9
    assert entry.statistics.first_response is None
    assert not entry.statistics.cached


async def test_first_responses_are_counted_in_the_buckets_of_the_configuration(make_engine, tmp_path):
    own = (
        'model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } '
        "histogram_options { buckets: [1, 60000] } } }"
    )
    write_model(tmp_path, "own", config=own)
    write_model(tmp_path, "usual")
    engine = make_engine(first_responses=True)
    await engine.start()
    for _ in range(3):
        await infer(engine, name="own")
    await infer(engine, name="usual")
    own, usual = (entry.statistics.first_response for entry in await engine.statistics())
    await engine.stop()

    assert (own.bounds, sum(own.counts)) == ((1, 60000), 3)
    assert (usual.bounds, sum(usual.counts)) == ((100, 500, 2000, 5000), 1)


# --- start-up ---


async def test_every_model_is_loaded(make_engine, tmp_path, caplog):
    write_model(tmp_path, "a")
    write_model(tmp_path, "b", versions=(1, 2), config="version_policy { all {} }")
    engine = make_engine()
    await engine.start()

    assert await engine.repository_index() == [
        IndexEntry("a", 1, "READY"), IndexEntry("b", 1, "READY"), IndexEntry("b", 2, "READY"),
    ]  # fmt: skip
    assert await engine.is_live()
    assert await engine.is_ready()
    assert "| b     | 2       | READY  |" in caplog.text
    with pytest.raises(UnavailableError, match=f"^{NO_POLL}$"):
        await engine.load_model("a")
    with pytest.raises(UnavailableError, match=f"^{NO_POLL}$"):
        await engine.unload_model("a")
    await engine.stop()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"model_repositories": ()}, InvalidArgumentError, "--model-repository must be specified"),
        ({"model_repositories": ("/nowhere",)}, InternalError, "failed to stat file /nowhere"),
        (
            {"model_control_mode": "explicit", "load_model": ("*", "a")},
            InvalidArgumentError,
            "Wildcard model name '*' must be the ONLY startup model if specified at all.",
        ),
        (
            {"model_control_mode": "explicit", "load_model": ("missing",)},
            InternalError,
            "failed to load all models",
        ),
    ],
)
async def test_starts_that_fail(make_engine, options, error, text):
    with pytest.raises(error) as caught:
        await make_engine(**options).start()

    assert caught.value.message == text


async def test_a_failing_model_ends_the_start_after_all_are_loaded(make_engine, tmp_path, caplog):
    write_model(tmp_path, "bad", base='backend: "nothing"')
    write_model(tmp_path, "good")
    with pytest.raises(InternalError, match=r"^failed to load all models$"):
        await make_engine().start()

    assert "successfully loaded 'good'" in caplog.messages
    assert "successfully unloaded 'good' version 1" in caplog.messages
    assert "| bad   | 1       | UNAVAILABLE: Invalid argument: unable to find backend library" in caplog.text


async def test_a_failing_model_leaves_the_others_serving(make_engine, tmp_path):
    write_model(tmp_path, "bad", base='backend: "nothing"')
    write_model(tmp_path, "syntax", config="nonsense")
    write_model(tmp_path, "good")
    write_model(tmp_path, "unversioned", versions=())
    engine = make_engine(exit_on_error=False)
    await engine.start()

    index = await engine.repository_index()
    assert [(entry.name, entry.version, entry.state) for entry in index[2:]] == [
        ("syntax", None, "UNAVAILABLE"), ("unversioned", None, "UNAVAILABLE"),
    ]  # fmt: skip
    assert "syntax/config.pbtxt: " in (index[2].reason or "")
    assert "A model needs a folder for each version" in (index[3].reason or "")
    assert index[:2] == [
        IndexEntry(
            "bad", 1, "UNAVAILABLE",
            "Invalid argument: unable to find backend library for backend 'nothing', try specifying runtime on the "
            "model configuration.",
        ),
        IndexEntry("good", 1, "READY"),
    ]  # fmt: skip
    assert not await engine.is_ready()
    assert await engine.is_model_ready("good")
    await engine.stop()


async def test_a_missing_repository_may_be_tolerated(make_engine):
    for strict in (True, False):
        engine = make_engine(model_repositories=("/nowhere",), exit_on_error=False, strict_readiness=strict)
        await engine.start()
        assert await engine.is_ready() is not strict
        await engine.stop()


@pytest.mark.parametrize("steady", [True, False])
async def test_a_broken_version_beside_one_that_serves(make_engine, tmp_path, steady):
    """An engine that was ready stays so where it is told to be steady: load balancers would leave it otherwise."""
    write_model(tmp_path, "a")
    engine = make_engine(model_control_mode="poll", repository_poll_secs=0, steady_readiness=steady)
    await engine.start()

    write_model(tmp_path, "b", base='backend: "nothing"')
    await engine._poller.poll()

    assert [entry.state for entry in await engine.repository_index()] == ["READY", "UNAVAILABLE"]
    assert await engine.is_ready() is steady
    await engine.stop()


async def test_steady_readiness_begins_when_every_model_is_ready(make_engine, tmp_path):
    write_model(tmp_path, "a")
    write_model(tmp_path, "b", base='backend: "nothing"')
    options = {"model_control_mode": "poll", "repository_poll_secs": 0, "exit_on_error": False}
    engine = make_engine(steady_readiness=True, **options)
    await engine.start()
    assert not await engine.is_ready()

    shutil.rmtree(tmp_path / "b")
    await engine._poller.poll()
    assert await engine.is_ready()

    write_model(tmp_path, "b", base='backend: "nothing"')
    await engine._poller.poll()
    assert await engine.is_ready()
    await engine.stop()


@pytest.mark.parametrize("steady", [True, False])
async def test_a_model_may_say_that_it_is_not_ready(make_engine, tmp_path, steady):
    for name in ("a", "b"):
        write_model(tmp_path, name)
    engine = make_engine(steady_readiness=steady)
    await engine.start()
    assert await engine.is_ready()

    async def disagree():
        return False

    engine._registry.find("b", -1).copy.agrees = disagree
    assert not await engine.is_ready()
    assert await engine.is_model_ready("a")
    assert not await engine.is_model_ready("b")
    await engine.stop()


@pytest.mark.parametrize("strict", [True, False])
async def test_an_engine_that_retires_is_not_ready_and_serves(make_engine, tmp_path, strict):
    write_model(tmp_path, "a")
    engine = make_engine(strict_readiness=strict)
    await engine.start()

    engine.retire()

    assert not await engine.is_ready()
    assert await engine.is_live()
    assert await engine.is_model_ready("a")
    request = a_request("a")
    engine.submit(request)
    assert (await request.sink.response()).error is None
    await engine.stop()


async def test_explicit_mode_starts_with_what_is_named(make_engine, tmp_path):
    write_model(tmp_path, "a")
    write_model(tmp_path, "b")
    for names, expected in (((), []), (("b",), ["b"]), (("*",), ["a", "b"])):
        engine = make_engine(model_control_mode="explicit", load_model=names)
        await engine.start()
        assert [entry.name for entry in await engine.repository_index(ready=True)] == expected
        assert await engine.is_ready()
        await engine.stop()


async def test_poll_mode_follows_the_repository(make_engine, tmp_path):
    write_model(tmp_path, "a")
    periods, may_poll = asyncio.Queue(), asyncio.Queue()

    async def wait(seconds):
        periods.put_nowait(seconds)
        await may_poll.get()

    engine = make_engine(model_control_mode="poll", repository_poll_secs=3)
    await engine.start(wait)
    assert await periods.get() == 3

    write_model(tmp_path, "b")
    shutil.rmtree(tmp_path / "a")
    may_poll.put_nowait(None)
    await periods.get()

    assert await engine.repository_index() == [IndexEntry("b", 1, "READY")]
    assert not await engine.is_model_ready("a")
    await engine.stop()


# --- inference ---


async def test_a_request_is_answered(explicit):
    response = await infer(explicit, id="7")

    assert (response.model_name, response.model_version, response.id) == ("simple", 1, "7")
    assert response.outputs[0].as_numpy().tolist() == [[1, 2, 3, 4]]
    assert explicit.find_model("simple").version == 1


async def test_what_is_refused_is_not_counted(explicit):
    with pytest.raises(InvalidArgumentError, match="unexpected shape for input 'INPUT'"):
        await infer(explicit, values=(1, 2))
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'other' is not found$"):
        await infer(explicit, name="other")
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'simple' version 2 is not found$"):
        await infer(explicit, model_version=2)

    assert (await explicit.statistics("simple"))[0].statistics.success.count == 0


async def test_a_waiting_request_can_be_cancelled(explicit, tmp_path):
    write_model(tmp_path, "slow", config='parameters { key: "execute_delay_ms" value { string_value: "50" } }')
    await explicit.load_model("slow")
    running, waiting = a_request("slow"), a_request("slow")
    explicit.submit(running)
    explicit.submit(waiting)
    explicit.cancel(waiting)

    with pytest.raises(CancelledError):
        await waiting.sink.response()
    assert (await running.sink.response()).error is None


# --- documents ---


async def test_server_metadata(make_engine):
    engine = make_engine(server_id="mine")

    assert await engine.server_metadata() == ServerMetadata("mine", __version__, EXTENSIONS)


async def test_server_metadata_shows_the_followed_triton(make_engine):
    engine = make_engine(server_version_compatibility="2.51.0")

    assert (await engine.server_metadata()).version == "2.51.0"


async def test_model_metadata(explicit, tmp_path):
    write_model(tmp_path, "two", versions=(1, 2), config="version_policy { all {} }")
    await explicit.load_model("two")

    every = await explicit.model_metadata("two")
    assert (every.name, every.versions, every.platform) == ("two", (1, 2), "identity")
    assert every.inputs == (TensorMetadata("INPUT", DataType.INT32, (-1, 4)),)
    assert every.outputs == (TensorMetadata("OUTPUT", DataType.INT32, (-1, 4)),)
    assert (await explicit.model_metadata("two", 1)).versions == (1,)
    with pytest.raises(NotFoundError, match="version 3 is not found"):
        await explicit.model_metadata("two", 3)


async def test_the_configuration_is_complete(explicit):
    document = await explicit.model_config("simple")

    assert document["version_policy"] == {"latest": {"num_versions": 1}}
    assert document["instance_group"][0]["name"] == "simple"


# --- loading and unloading ---


async def test_a_model_is_unloaded_and_loaded_again(explicit):
    await infer(explicit)
    await unloaded(explicit)

    assert await explicit.repository_index() == [IndexEntry("simple", 1, "UNAVAILABLE", "unloaded")]
    assert await explicit.is_ready()
    assert not await explicit.is_model_ready("simple")
    with pytest.raises(NotFoundError, match=r"^Request for unknown model: 'simple' has no available versions$"):
        await infer(explicit)
    with pytest.raises(InvalidArgumentError, match=r"^requested model 'simple' is not available$"):
        await explicit.statistics("simple")

    await explicit.load_model("simple")
    await infer(explicit)
    found = await explicit.statistics("simple")
    assert (found[0].statistics.success.count, found[0].earlier) == (1, None)


async def test_metrics_keep_counting_over_a_reload(explicit, tmp_path):
    await infer(explicit)
    touch_later(write_model(tmp_path, "simple", config='parameters { key: "a" value { string_value: "b" } }'))
    await explicit.load_model("simple")
    found = (await explicit.statistics("simple"))[0]

    assert found.statistics.success.count == 0
    assert found.earlier is not None
    assert found.earlier.success.count == 1


async def test_more_instances_without_a_reload(explicit, tmp_path):
    before = explicit._registry.find("simple").copy
    touch_later(write_model(tmp_path, "simple", config="instance_group { count: 3 kind: KIND_CPU }") / "config.pbtxt")
    await explicit.load_model("simple")

    assert explicit._registry.find("simple").copy is before
    assert explicit.find_model("simple").config.instance_groups[0].count == 3
    assert (await explicit.model_config("simple"))["instance_group"][0]["count"] == 3
    await asyncio.gather(*(infer(explicit) for _ in range(10)))


async def test_requests_during_reloads_are_all_answered(explicit, tmp_path):
    """No version is ever without an answer during a swap."""
    done = asyncio.Event()

    async def ask():
        answers = 0
        while not done.is_set():
            assert (await infer(explicit)).outputs[0].as_numpy().tolist() == [[1, 2, 3, 4]]
            answers += 1
        return answers

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    for round_ in range(5):
        config = f'parameters {{ key: "round" value {{ string_value: "{round_}" }} }}'
        touch_later(write_model(tmp_path, "simple", config=config) / "config.pbtxt")
        await explicit.load_model("simple")
    done.set()
    answers = sum(await asyncio.gather(*asking))
    found = (await explicit.statistics("simple"))[0]
    assert found.earlier is not None
    assert found.earlier.success.count + found.statistics.success.count == answers
    assert answers >= 4


async def test_a_configuration_override(explicit):
    config = json.dumps({**CONFIG, "parameters": {"colour": {"string_value": "red"}}})
    await explicit.load_model("simple", config=config)
    assert explicit.find_model("simple").config.parameters == {"colour": "red"}
    assert explicit.find_model("simple").config.inputs[0].name == "IN"

    await explicit.load_model("simple")
    assert explicit.find_model("simple").config.inputs[0].name == "IN"

    await unloaded(explicit)
    await explicit.load_model("simple")
    assert explicit.find_model("simple").config.inputs[0].name == "INPUT"


@pytest.mark.parametrize("config", ["{", '{"colour": 1}', '{"name": "other", "backend": "identity"}', "", "[]"])
async def test_overrides_that_cannot_be_read(explicit, config, caplog):
    with pytest.raises(InternalError, match=r"^failed to load 'simple', failed to poll from model repository$"):
        await explicit.load_model("simple", config=config)

    assert any(message.startswith("Poll failed for model directory 'simple': ") for message in caplog.messages)
    assert (await infer(explicit)).error is None


async def test_a_model_from_the_request_alone(explicit):
    await explicit.load_model("given", config=json.dumps(CONFIG), files={"file:1/weights": b"1"})

    assert await explicit.is_model_ready("given")
    assert [entry.name for entry in await explicit.repository_index()] == ["simple"]
    await unloaded(explicit, "given")


async def test_files_without_a_configuration(explicit, caplog):
    with pytest.raises(InternalError, match="failed to poll from model repository"):
        await explicit.load_model("given", files={"file:1/weights": b"1"})

    assert "Load parameter 'config' must be specified for model file override" in caplog.messages


async def test_files_outside_the_model(explicit, caplog):
    with pytest.raises(InternalError, match="failed to poll from model repository"):
        await explicit.load_model("given", config="{}", files={"file:../../x": b"1"})

    assert (
        "Invalid file parameter 'file:../../x' with normalized path '/x' must stay within model directory."
        in caplog.messages
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "Model name cannot be empty. Please enter a valid name to deploy."),
        (" ", "Model name cannot be empty. Please enter a valid name to deploy."),
        ("..", "invalid model name '..', model name must not contain path traversal characters"),
        ("a/b", "invalid model name 'a/b', model name must not contain path traversal characters"),
    ],
)
async def test_names_that_are_none(explicit, name, text):
    with pytest.raises(InvalidArgumentError) as caught:
        await explicit.load_model(name)

    assert caught.value.message == text


async def test_a_failed_load(explicit, tmp_path):
    write_model(tmp_path, "bad", base='backend: "nothing"')
    with pytest.raises(InvalidArgumentError) as caught:
        await explicit.load_model("bad")

    assert caught.value.message == (
        "load failed for model 'bad': version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend "
        "library for backend 'nothing', try specifying runtime on the model configuration.;\n"
    )
    assert not await explicit.is_ready()
    with pytest.raises(UnavailableError, match="version 1 is not at ready state"):
        explicit.find_model("bad", 1)


async def test_complete_configurations_may_be_required(make_engine, tmp_path, caplog):
    (tmp_path / "bare" / "1").mkdir(parents=True)
    engine = make_engine(disable_auto_complete_config=True, exit_on_error=False)
    await engine.start()

    path = tmp_path / "bare" / "config.pbtxt"
    assert (
        f"Poll failed for model directory 'bare': failed to open text file for read {path}: No such file or directory"
        in caplog.messages
    )
    await engine.stop()


# --- the end ---


async def test_a_stop_finishes_what_is_in_flight(make_engine, tmp_path, caplog):
    write_model(tmp_path, "slow", config='parameters { key: "execute_delay_ms" value { string_value: "30" } }')
    engine = make_engine()
    await engine.start()
    running = [a_request("slow") for _ in range(3)]
    for request in running:
        engine.submit(request)
    stopping = asyncio.create_task(engine.stop(20))
    await asyncio.sleep(0)

    with pytest.raises(UnavailableError) as caught:
        engine.submit(a_request("slow", id="9"))
    assert caught.value.message == (
        "[request id: 9] Server is stopping, scheduler for model has stopped accepting new inference requests"
    )
    with pytest.raises(UnavailableError, match=r"^Server exiting$"):
        await engine.is_ready()
    assert await engine.is_live()

    await stopping
    assert all([(await request.sink.response()).error is None for request in running])
    began = caplog.messages.index("Waiting for in-flight requests to complete.")
    phases = [re.sub(r"^Timeout \d+", "Timeout N", message) for message in caplog.messages[began:]]
    assert list(dict.fromkeys(phases)) == [
        "Waiting for in-flight requests to complete.",
        "Timeout N: Found 1 model versions that have in-flight inferences",
        "Model 'slow' (version 1) has 3 in-flight inferences",
        "All models are stopped, unloading models",
        "Timeout N: Found 1 live models and 0 in-flight non-inference requests",
        "successfully unloaded 'slow' version 1",
    ]


async def test_a_stop_that_takes_too_long(make_engine, tmp_path, caplog):
    write_model(tmp_path, "slow", config='parameters { key: "execute_delay_ms" value { string_value: "200" } }')
    engine = make_engine()
    await engine.start()
    request = a_request("slow")
    engine.submit(request)

    with pytest.raises(InternalError, match=r"^Exit timeout expired. Exiting immediately.$"):
        await engine.stop(0)
    assert "Exit timeout expired. Exiting immediately." in caplog.messages

    await request.sink.response()
    await engine.stop()


async def test_models_may_call_models_until_everything_is_drained(explicit):
    """What models get as their server still takes requests when the one for clients does not."""
    explicit._accepting = False
    inner: InferenceServer = explicit._inner
    request = a_request()
    inner.submit(request)

    assert (await request.sink.response()).error is None


# --- sequences at the end ---

SEQUENCES = "sequence_batching { max_sequence_idle_microseconds: 60000000 }"


async def in_sequence(engine, *, start=False, end=False):
    request = a_request()
    request.sequence = SequenceId(7, start=start, end=end)
    engine.submit(request)
    return await request.sink.response()


@pytest.fixture
async def sequences(make_engine, tmp_path):
    write_model(tmp_path, "simple", config=SEQUENCES)
    engine = make_engine()
    await engine.start()
    yield engine
    await engine.stop()


async def test_without_sequences_there_is_nothing_to_wait_for(sequences):
    await in_sequence(sequences, start=True, end=True)
    await sequences.finish_sequences(600)
    assert await sequences.is_ready()
    await in_sequence(sequences, start=True, end=True)


async def test_sequences_are_finished_and_others_refused(sequences, caplog):
    await in_sequence(sequences, start=True)
    finishing = asyncio.create_task(sequences.finish_sequences(600))
    await asyncio.sleep(0)
    assert not await sequences.is_ready()
    await in_sequence(sequences)
    assert not finishing.done()
    await in_sequence(sequences, end=True)
    await finishing
    with pytest.raises(UnavailableError, match="has stopped accepting new inference requests"):
        await in_sequence(sequences, start=True)
    assert "Timeout 600: Found 1 model versions that have in-flight inferences" in caplog.messages


async def test_sequences_that_do_not_end_are_cut_off(sequences, caplog):
    await in_sequence(sequences, start=True)
    await sequences.finish_sequences(0)
    assert "1 live sequences are cut off" in caplog.messages
