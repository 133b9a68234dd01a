"""Sequences through a loaded model: answers, states, statistics, and what ends them."""

import asyncio
import gc
import weakref

import numpy as np
import onnxruntime
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, WarmupData, WarmupInput, WarmupSample
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import SequenceId
from charonia_runtime.core.scheduling import (
    DirectStrategy,
    InitialState,
    OldestStrategy,
    SequenceBatching,
    SequenceState,
)
from charonia_runtime.core.statistics import FailureReason
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.execution.pace import Pace
from tests.support.backends import Gate, a_folder, fake_backend
from tests.support.configs import a_config
from tests.support.onnx_models import a_model, a_node, a_value
from tests.support.requests import RecordingSink, a_request
from tests.support.sequences import STATE, a_sequence_config, a_step

STRATEGIES = [DirectStrategy(), OldestStrategy(4)]
both = pytest.mark.parametrize("strategy", STRATEGIES, ids=["direct", "oldest"])


def running_sum(batch):
    """OUT = STATE_OUT = STATE_IN + IN."""
    batch.mark_inputs_ready()
    total = batch.gather("IN") + batch.gather("STATE_IN")
    batch.scatter({"OUT": total, "STATE_OUT": total})


def instances(count):
    return {"instance_groups": (InstanceGroup("m", InstanceKind.CPU, count),)}


async def load(tmp_path, backend, config, **options):
    return await Model.load(a_folder(tmp_path, "m"), config, backend, **options)


def submit(model, *arguments, **fields):
    sink = RecordingSink()
    request = a_step(*arguments, sink=sink, **fields)
    model.submit(request)
    return request, sink


def submit_plain(model, value):
    sink = RecordingSink()
    model.submit(a_request("m", {"IN": np.full((1, 1), value, np.int32)}, sink=sink))
    return sink


async def out_of(sink):
    return (await sink.response()).outputs[0].as_numpy().reshape(-1)[0].item()


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what time and threads do has no event
        await asyncio.sleep(0.001)


# --- answers and states ---


@both
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("brief", [False, True])
async def test_many_sequences_at_once_keep_their_states_apart(tmp_path, monkeypatch, strategy, count, brief):
    if brief:
        monkeypatch.setattr(Pace, "is_brief", property(lambda _: True))
    backend = fake_backend(running_sum, any_thread=brief)
    config = a_sequence_config(strategy, states=(STATE,), changes=instances(count))
    model = await load(tmp_path, backend, config)

    async def client(number):
        total = 0
        for step in range(20):
            _, sink = submit(model, number, number * step, start=step == 0, end=step == 19)
            total += number * step
            assert await out_of(sink) == total
            assert [tensor.name for tensor in sink.responses[0].outputs] == ["OUT"]

    await asyncio.gather(*(client(number) for number in range(1, 41)))
    statistics = model.statistics
    assert (statistics.success.count, statistics.inference_count, statistics.pending) == (800, 800, 0)
    assert statistics.execution_count == sum(len(instance.batches) for instance in backend.made[0].instances)
    assert model.in_flight == 0
    await model.close()


async def test_null_requests_count_in_batches_only(tmp_path):
    backend = fake_backend(running_sum)
    model = await load(tmp_path, backend, a_sequence_config(states=(STATE,)))
    for number in (1, 2, 3):
        _, sink = submit(model, number, number, start=True)
        assert await out_of(sink) == number
    assert backend.made[0].instances[0].batches == [[1], [1, 1], [1, 1, 1]]
    assert (model.statistics.success.count, model.statistics.inference_count) == (3, 3)
    assert {rows: one.compute_infer.count for rows, one in model.statistics.batches.items()} == {1: 1, 2: 1, 3: 1}
    await model.close()


async def test_a_state_that_clients_may_see_is_an_output_too(tmp_path):
    config = a_sequence_config(states=(SequenceState("STATE_IN", "OUT", DataType.INT32, (1,)),))

    def execute(batch):
        batch.scatter({"OUT": batch.gather("IN") + batch.gather("STATE_IN")})

    model = await load(tmp_path, fake_backend(execute), config)
    assert await out_of(submit(model, 1, 5, start=True)[1]) == 5
    assert await out_of(submit(model, 1, 6)[1]) == 11
    await model.close()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            np.zeros((1, 1), np.float32),
            "state 'STATE_OUT' of model 'm' has data-type INT32, but the model produced FP32",
        ),
        (np.zeros((1, 2), np.int32), "state 'STATE_OUT' of model 'm' has shape [1,1], but the model produced [1,2]"),
        (np.zeros((0, 1), np.int32), "state 'STATE_OUT' of model 'm' has shape [1,1], but the model produced [0,1]"),
    ],
)
async def test_a_state_of_another_kind_fails_the_request(tmp_path, made, text):
    def execute(batch):
        wrong = batch.gather("IN")[0, 0] == 0
        batch.scatter({"OUT": batch.gather("STATE_IN"), "STATE_OUT": made if wrong else batch.gather("IN")})

    model = await load(tmp_path, fake_backend(execute), a_sequence_config(states=(STATE,)))
    await out_of(submit(model, 1, 7, start=True)[1])
    with pytest.raises(InternalError) as caught:
        await submit(model, 1, 0)[1].response()
    assert caught.value.message == text
    assert await out_of(submit(model, 1, 8)[1]) == 7, "the state stays as it was"
    await model.close()


async def test_a_paused_sequence_keeps_no_more_than_its_own_state(tmp_path):
    """What a batch produced for the others is freed."""
    produced = []

    def execute(batch):
        states = np.zeros((len(batch.requests), 1), np.int32)
        produced.append(weakref.ref(states))
        batch.scatter({"OUT": batch.gather("IN"), "STATE_OUT": states})

    model = await load(tmp_path, fake_backend(execute), a_sequence_config(OldestStrategy(4), states=(STATE,)))
    for sink in [submit(model, number, start=True)[1] for number in (1, 2, 3)]:
        await sink.wait()
    assert len(produced) == 1
    gc.collect()
    await until(lambda: produced[0]() is None)
    await model.close()


# --- initial states ---


def with_initial(initial, datatype=DataType.INT32, dims=(2,)):
    state = SequenceState("STATE_IN", "STATE_OUT", datatype, dims, initial)
    return a_sequence_config(states=(state,))


async def test_initial_states_come_from_files(tmp_path):
    (tmp_path / "initial_state").mkdir()
    (tmp_path / "initial_state" / "begin").write_bytes(np.array([3, 4], np.int32).tobytes())
    seen = []

    def execute(batch):
        seen.append(batch.gather("STATE_IN").tolist())
        batch.scatter({"OUT": batch.gather("IN"), "STATE_OUT": batch.gather("STATE_IN") + 1})

    config = with_initial(InitialState("begin", DataType.INT32, (2,), "begin"), dims=(-1,))
    model = await load(tmp_path, fake_backend(execute), config)
    for number, start in ((1, True), (1, False), (2, True), (1, True)):
        await submit(model, number, start=start)[1].response()
    assert [rows[-1] if number == 2 else rows[0] for number, rows in zip((1, 1, 2, 1), seen, strict=True)] == [
        [3, 4], [4, 5], [3, 4], [3, 4],
    ]  # fmt: skip
    await model.close()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("short", "initial_state setting expects 8 bytes, but the data provided from shortonly has 3 bytes."),
        ("missing", "failed to open text file for read"),
        ("../outside", "data_file '../outside' must be a path inside the model's folder"),
    ],
)
async def test_files_that_are_no_initial_state(tmp_path, file, text):
    (tmp_path / "initial_state").mkdir()
    (tmp_path / "initial_state" / "short").write_bytes(b"abc")
    backend = fake_backend(running_sum)
    with pytest.raises((InvalidArgumentError, InternalError), match=text):
        await load(tmp_path, backend, with_initial(InitialState("begin", DataType.INT32, (2,), file)))
    assert backend.made[0].closed


async def test_states_begin_as_zeros_and_empty_strings(tmp_path):
    numbers = SequenceState("A", "A_OUT", DataType.FP16, (2, -1))
    strings = SequenceState("B", "B_OUT", DataType.BYTES, (2,), InitialState("b", DataType.BYTES, (2,)))
    seen = []

    def execute(batch):
        seen.append((batch.gather("A"), batch.gather("B")))
        batch.scatter(
            {
                "OUT": batch.gather("IN"),
                "A_OUT": np.ones((1, 2, 3), np.float16),
                "B_OUT": np.array([[b"x", b"yz"]], object),
            }
        )

    model = await load(tmp_path, fake_backend(execute), a_sequence_config(states=(numbers, strings)))
    for start in (True, False):
        await submit(model, 1, start=start)[1].response()
    assert (seen[0][0].shape, seen[0][0].any(), seen[0][1].tolist()) == ((1, 2, 1), False, [[b"", b""]])
    assert (seen[1][0].shape, seen[1][1].tolist()) == ((1, 2, 3), [[b"x", b"yz"]])
    await model.close()


# --- what ends sequences ---


@both
async def test_a_silent_sequence_ends_by_the_clock(tmp_path, strategy):
    config = a_sequence_config(strategy, states=(STATE,), max_sequence_idle_us=20_000, max_batch_size=1) \
        if strategy == STRATEGIES[0] else \
        a_sequence_config(OldestStrategy(1), states=(STATE,), max_sequence_idle_us=20_000)  # fmt: skip
    model = await load(tmp_path, fake_backend(running_sum), config)
    await submit(model, 1, start=True)[1].response()
    _, sink = submit(model, 2, 5, start=True)
    assert await out_of(sink) == 5, "it waited in the backlog until the other was silent for too long"
    with pytest.raises(InvalidArgumentError):
        submit(model, 1)
    await model.close()


async def test_a_timeout_in_the_backlog(tmp_path):
    model = await load(tmp_path, fake_backend(running_sum), a_sequence_config(states=(STATE,), max_batch_size=1))
    await submit(model, 1, start=True)[1].response()
    sinks = [submit(model, 2, start=True)[1], submit(model, 2, timeout_us=10_000)[1]]
    assert model.statistics.pending == 2
    for sink in sinks:
        with pytest.raises(UnavailableError, match=r"^timeout of the corresponding sequence has been expired$"):
            await sink.response()
    assert (model.statistics.failures[FailureReason.REJECTED], model.statistics.pending, model.in_flight) == (2, 0, 0)
    await model.close()


@both
async def test_cancelling_a_request_cancels_what_waits_behind_it(tmp_path, strategy):
    gate = Gate(running_sum)
    model = await load(tmp_path, fake_backend(gate), a_sequence_config(strategy, states=(STATE,)))
    first, first_sink = submit(model, 1, 1, start=True)
    await asyncio.to_thread(gate.entered.acquire)
    (second, second_sink), (_, third_sink) = submit(model, 1, 2), submit(model, 1, 3)
    model.cancel(first)
    model.cancel(second)
    for sink in (second_sink, third_sink):
        with pytest.raises(CancelledError):
            await sink.response()
    assert not first_sink.ended
    gate.open()
    assert await out_of(first_sink) == 1
    assert first.cancelled, "the running model may look at it"
    with pytest.raises(InvalidArgumentError):
        submit(model, 1)
    assert (model.statistics.failures[FailureReason.CANCELED], model.in_flight) == (2, 0)
    await model.close()


async def test_closing_answers_what_waits(tmp_path):
    gate = Gate(running_sum)
    model = await load(tmp_path, fake_backend(gate), a_sequence_config(states=(STATE,), max_batch_size=1))
    sinks = [submit(model, number, start=True)[1] for number in (1, 2)]
    await asyncio.to_thread(gate.entered.acquire)
    gate.open()
    await model.close()
    assert await out_of(sinks[0]) == 0
    with pytest.raises(UnavailableError):
        await sinks[1].response()


# --- instances ---


async def test_an_instance_leaves_when_its_sequences_are_over(tmp_path):
    backend = fake_backend(running_sum)
    config = a_sequence_config(states=(STATE,), max_batch_size=1, changes=instances(2))
    model = await load(tmp_path, backend, config)
    for number in (1, 2):
        await submit(model, number, number, start=True)[1].response()
    await model.update_instances(a_sequence_config(states=(STATE,), max_batch_size=1, changes=instances(1)))
    assert not any(instance.closed for instance in backend.made[0].instances)
    _, waiting = submit(model, 3, 3, start=True)
    for number in (1, 2):
        assert await out_of(submit(model, number, 10)[1]) == number + 10
    assert not waiting.ended
    for number in (1, 2):
        await submit(model, number, end=True)[1].response()
    assert await out_of(waiting) == 3
    await until(lambda: [instance.closed for instance in backend.made[0].instances].count(True) == 1)
    await model.close()


async def test_closing_does_not_wait_for_live_sequences(tmp_path):
    backend = fake_backend(running_sum)
    config = a_sequence_config(states=(STATE,), max_batch_size=1, changes=instances(2), max_sequence_idle_us=10**9)
    model = await load(tmp_path, backend, config)
    for number in (1, 2):
        await submit(model, number, start=True)[1].response()
    await model.update_instances(a_sequence_config(states=(STATE,), max_batch_size=1, changes=instances(1)))
    await asyncio.wait_for(model.close(), 10)
    assert all(instance.closed for instance in backend.made[0].instances)


async def test_the_hooks_of_tests_hold_everything_back(tmp_path):
    backend = fake_backend(running_sum)
    config = a_sequence_config(states=(STATE,), max_batch_size=1)
    model = await load(tmp_path, backend, config, delay_scheduler=2, delay_backlog=1)
    sinks = [submit(model, 1, 1, start=True)[1], submit(model, 1, 2, end=True)[1]]
    await asyncio.sleep(0.02)
    assert not sinks[0].ended
    sinks.append(submit(model, 2, 4, start=True)[1])
    assert [await out_of(sink) for sink in sinks] == [1, 3, 4]
    await model.close()


# --- iterative sequences ---


def count_down(batch):
    """Counts STATE_OUT up to IN, a step an execution."""
    done = batch.gather("STATE_IN") + 1
    wanted = batch.gather("IN")
    batch.states = [{"STATE_IN": Tensor.from_numpy("STATE_IN", row.reshape(1, 1))} for row in done]
    for index in range(len(batch.requests)):
        if done[index, 0] < wanted[index, 0]:
            batch.reschedule(index)
        else:
            batch.respond(index, [Tensor.from_numpy("OUT", done[index].reshape(1, 1))])


@both
async def test_iterative_requests_come_again_until_they_are_answered(tmp_path, strategy):
    model = await load(tmp_path, fake_backend(count_down), a_sequence_config(strategy, states=(STATE,), iterative=True))
    sinks = [submit_plain(model, value) for value in (3, 1, 4, 2, 5, 7)]
    assert [await out_of(sink) for sink in sinks] == [3, 1, 4, 2, 5, 7]
    assert (model.statistics.success.count, model.statistics.fail.count) == (22, 0)
    assert (model.statistics.inference_count, model.statistics.pending, model.in_flight) == (22, 0, 0)
    await model.close()


async def test_null_requests_that_a_model_wants_again_are_forgotten(tmp_path):
    def execute(batch):
        for index, request in enumerate(batch.requests):
            if request.sequence is None:
                batch.reschedule(index)
            else:
                batch.respond(index, [])

    gate = Gate(execute)
    model = await load(tmp_path, fake_backend(gate), a_sequence_config(iterative=True, variable=True))
    sinks = [submit(model, number, start=True, width=width)[1] for number, width in ((1, 1), (2, 2))]
    gate.open(2)
    for sink in sinks:
        await sink.response()
    assert (model.statistics.success.count, model.statistics.pending, model.in_flight) == (2, 0, 0)
    await model.close()


async def test_warm_up_of_an_iterative_model_runs_each_sample_once(tmp_path):
    sample = WarmupSample("w", 1, {"IN": WarmupInput(DataType.INT32, (1,), WarmupData.ZERO)})

    def execute(batch):
        for index in range(len(batch.requests)):
            batch.reschedule(index)

    config = a_sequence_config(iterative=True, changes={"warmup": (sample,)})
    model = await load(tmp_path, fake_backend(execute), config)
    assert (model.statistics.execution_count, model.in_flight, model.statistics.pending) == (1, 0, 0)
    await model.close()


async def test_a_cancelled_request_is_not_rescheduled(tmp_path):
    gate = Gate(count_down)
    config = a_sequence_config(states=(STATE,), iterative=True)
    model = await load(tmp_path, fake_backend(gate), config)
    request, sink = submit(model, 1, 10, start=True)
    await asyncio.to_thread(gate.entered.acquire)
    model.cancel(request)
    gate.open()
    with pytest.raises(CancelledError):
        await sink.response()
    assert (model.in_flight, model.statistics.pending) == (0, 0)
    await model.close()


async def test_closing_ends_what_would_come_again(tmp_path):
    gate = Gate(count_down)
    config = a_sequence_config(states=(STATE,), iterative=True)
    model = await load(tmp_path, fake_backend(gate), config)
    sink = submit_plain(model, 10)
    await asyncio.to_thread(gate.entered.acquire)
    closing = asyncio.create_task(model.close())
    await asyncio.sleep(0)
    gate.open()
    await closing
    with pytest.raises(UnavailableError):
        await sink.response()
    assert model.in_flight == 0


# --- order ---


@pytest.mark.parametrize("preserve", [True, False])
async def test_answers_of_other_sequences_keep_their_order_where_that_is_configured(tmp_path, preserve):
    backend = fake_backend(lambda batch: None, on_event_loop=True)
    strategy = OldestStrategy(4, preserve_ordering=preserve)
    config = a_sequence_config(strategy, changes={"decoupled": True})
    model = await load(tmp_path, backend, config)
    instance = backend.made[0].instances[0]
    sinks = []
    for number in (1, 2):
        sinks.append(submit(model, number, start=True)[1])
        await until(lambda: len(instance.running) == len(sinks))
        instance.running[-1][1]()
        await asyncio.sleep(0)
    for batch, _ in instance.running[::-1]:
        batch.respond(0, [])
        batch.flush()
        if batch is instance.running[1][0]:
            assert sinks[1].ended is not preserve
    assert all(sink.ended for sink in sinks)
    await model.close()


# --- real models ---


async def test_a_state_grows_as_the_model_makes_it(tmp_path):
    """OUT is all that the sequence has sent, behind the one zero that its state began with."""
    model_file = a_model(
        [
            a_node("Concat", ["STATE_IN", "IN"], ["STATE_OUT"], axis=1),
            a_node("Identity", ["STATE_OUT"], ["OUT"]),
        ],
        [a_value("IN", ["n", "m"], DataType.INT32), a_value("STATE_IN", ["n", "k"], DataType.INT32)],
        [a_value("OUT", ["n", "j"], DataType.INT32), a_value("STATE_OUT", ["n", "j"], DataType.INT32)],
    )
    files = a_folder(tmp_path, "m")
    (files.version_directory / "model.onnx").write_bytes(model_file)
    state = SequenceState("STATE_IN", "STATE_OUT", DataType.INT32, (-1,), use_same_buffer=True)
    scheduling = SequenceBatching(OldestStrategy(8), states=(state,))
    config = ModelConfig("m", backend="onnxruntime", max_batch_size=4, scheduling=scheduling)
    model = await Model.load(files, config, load_backend("onnxruntime"))
    assert [spec.name for spec in (*model.config.inputs, *model.config.outputs)] == ["IN", "OUT"]
    for step in range(4):
        sinks = [submit(model, number, 10 * number + step, start=step == 0)[1] for number in range(1, 7)]
        for number, sink in enumerate(sinks, 1):
            (out,) = (await sink.response()).outputs
            assert out.as_numpy().tolist() == [[0, *(10 * number + past for past in range(step + 1))]]
    await model.close()


@both
async def test_a_voice_detector_with_its_state_kept_by_the_server(tmp_path, real_model_files, strategy):
    """Bit for bit what the bare library says when its caller carries the state, for voices that talk at once."""
    files = a_folder(tmp_path, "voice")
    (files.version_directory / "model.onnx").symlink_to(real_model_files["voice"].resolve())
    state = SequenceState("state", "stateN", DataType.FP32, (2, -1, 128))
    scheduling = SequenceBatching(strategy, states=(state,))
    groups = (InstanceGroup("voice", InstanceKind.CPU, 2),)
    config = ModelConfig("voice", backend="onnxruntime", scheduling=scheduling, instance_groups=groups)
    model = await Model.load(files, config, load_backend("onnxruntime"))
    assert [spec.name for spec in (*model.config.inputs, *model.config.outputs)] == ["input", "sr", "output"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    bare = onnxruntime.InferenceSession(real_model_files["voice"], options, providers=["CPUExecutionProvider"])
    rate = np.array([16000])

    async def talk(number):
        carried = np.zeros((2, 1, 128), np.float32)
        for step, sound in enumerate(speech(number)):
            sink = RecordingSink()
            place = SequenceId(f"voice {number}", start=step == 0, end=step == 29)
            model.submit(a_request("voice", {"input": sound, "sr": rate}, sink=sink, sequence=place))
            expected, carried = bare.run(None, {"input": sound, "state": carried, "sr": rate.reshape(())})
            (output,) = (await sink.response()).outputs
            assert output.as_numpy().tobytes() == expected.tobytes()

    await asyncio.gather(*(talk(number) for number in range(6)))
    await model.close()


def speech(number):
    """30 windows of 32 ms, each with the last 4 ms before it: a voice's harmonics, swelling and fading."""
    time = np.arange(30 * 512 + 64, dtype=np.float32) / 16000
    pitch = 110 + 25 * number
    voice = sum(np.sin(2 * np.pi * pitch * harmonic * time) / harmonic for harmonic in range(1, 12))
    sound = (0.2 * voice * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * time))).astype(np.float32)
    return [sound[None, start : start + 576] for start in range(0, 30 * 512, 512)]


async def test_a_state_must_be_in_the_model(tmp_path):
    files = a_folder(tmp_path, "m")
    model_file = a_model(
        [a_node("Add", ["IN", "S"], ["T"])],
        [a_value("IN", ["n", 2]), a_value("S", ["n", 2])],
        [a_value("T", ["n", 2])],
    )
    (files.version_directory / "model.onnx").write_bytes(model_file)
    for state, text in (
        (SequenceState("S", "U", DataType.FP32, (2,)), "output_name 'U' is not in the model, which has: T"),
        (SequenceState("S", "T", DataType.INT32, (2,)), "has data-type TYPE_FP32 in the model but TYPE_INT32"),
        (SequenceState("S", "T", DataType.FP32, (3,)), r"has shape \[-1,2\] in the model but \[-1,3\]"),
    ):
        scheduling = SequenceBatching(states=(state,))
        config = a_config("m", backend="onnxruntime", inputs=(), outputs=(), scheduling=scheduling)
        with pytest.raises(InvalidArgumentError, match=f"^unable to load model 'm', sequence_batching.state.*{text}"):
            await Model.load(files, config, load_backend("onnxruntime"))


# --- the server's end ---


@both
async def test_sequences_that_live_may_end_when_no_others_begin(tmp_path, strategy):
    model = await load(tmp_path, fake_backend(running_sum), a_sequence_config(strategy, states=(STATE,)))
    assert await out_of(submit(model, 1, 1, start=True)[1]) == 1
    model.end_sequences()
    with pytest.raises(UnavailableError, match=r"^Server is stopping, scheduler for model has stopped"):
        submit(model, 2, 1, start=True)
    assert await out_of(submit(model, 3, 5, start=True, end=True, callers=("caller",))[1]) == 5
    assert await out_of(submit(model, 1, 2)[1]) == 3
    assert model.live_sequences == 1
    assert await out_of(submit(model, 1, 4, end=True)[1]) == 7
    assert (model.live_sequences, model.in_flight) == (0, 0)
    await model.close()


async def test_sequences_that_fall_silent_do_not_live(tmp_path):
    config = a_sequence_config(states=(STATE,), max_sequence_idle_us=20_000)
    model = await load(tmp_path, fake_backend(running_sum), config)
    await submit(model, 1, 1, start=True)[1].response()
    assert model.live_sequences == 1
    while model.live_sequences:  # noqa: ASYNC110 - time alone ends it
        await asyncio.sleep(0.005)
    await model.close()


async def test_requests_that_models_repeat_are_no_sequences_of_clients(tmp_path):
    gate = Gate(lambda batch: batch.scatter({"OUT": batch.gather("IN")}))
    model = await load(tmp_path, fake_backend(gate), a_sequence_config(iterative=True))
    first = submit_plain(model, 1)
    model.end_sequences()
    assert model.live_sequences == 0
    second = submit_plain(model, 1)
    gate.open(2)
    for sink in (first, second):
        await sink.response()
    await model.close()
