"""Warm-up: what the samples become, and Triton's texts."""

from dataclasses import replace

import numpy as np
import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind, WarmupData, WarmupInput, WarmupSample
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.execution.warmup import read_warmups
from tests.support.backends import a_folder, echo, fake_backend
from tests.support.configs import a_config, a_tensor

ZEROS = WarmupInput(DataType.INT32, (2,), WarmupData.ZERO)


def config(*samples, **changes):
    fields = {
        "inputs": (a_tensor("IN", DataType.INT32, 2),),
        "outputs": (a_tensor("OUT", DataType.INT32, 2),),
        "instance_groups": (InstanceGroup("m_0", InstanceKind.CPU, 1),),
        "warmup": samples,
    }
    return a_config("m", **fields | changes)


def sample(given=ZEROS, *, batch_size=1, count=1, **more):
    return WarmupSample("s", batch_size, {"IN": given, **more}, count)


async def load(tmp_path, model_config, execute=echo, **traits):
    backend = fake_backend(execute, **traits)
    model = await Model.load(a_folder(tmp_path, "m"), model_config, backend)
    statistics = model.statistics
    await model.close()
    return backend.made[0], statistics


@pytest.mark.parametrize(
    ("samples", "batches"),
    [
        ((), []),
        ((sample(),), [[1]]),
        ((sample(batch_size=3),), [[1, 1, 1]]),
        ((sample(count=3),), [[1]] * 3),
        ((sample(count=0),), [[1]]),
        ((sample(batch_size=0),), []),
        ((sample(), sample(batch_size=2)), [[1], [1, 1]]),
    ],
)
async def test_each_instance_executes_each_sample(tmp_path, samples, batches):
    groups = (InstanceGroup("m_0", InstanceKind.CPU, 2),)
    made, statistics = await load(tmp_path, config(*samples, instance_groups=groups))
    assert [instance.batches for instance in made.instances] == [batches, batches]
    assert statistics.success.count == 2 * sum(len(batch) for batch in batches)
    assert statistics.execution_count == 2 * len(batches)
    assert statistics.pending == 0


async def test_data_of_every_kind(tmp_path):
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup" / "raw").write_bytes(np.array([5, 6, 7], np.int32).tobytes())
    seen = []

    def execute(batch):
        seen.append(batch.gather("IN").tolist())
        echo(batch)

    await load(
        tmp_path,
        config(sample(), sample(replace(ZEROS, data=WarmupData.RANDOM)), sample(replace(ZEROS, data="raw"))),
        execute,
    )
    assert seen[0] == [[0, 0]]
    assert np.shape(seen[1]) == (1, 2)
    assert seen[2] == [[5, 6]]


@pytest.mark.parametrize("kind", [WarmupData.ZERO, WarmupData.RANDOM])
def test_strings_without_a_file_are_empty(tmp_path, kind):
    given = WarmupInput(DataType.BYTES, (3,), kind)
    (warmup,) = read_warmups(config(sample(given), inputs=(a_tensor("IN", DataType.BYTES, 3),)), tmp_path)
    assert warmup.inputs["IN"].as_numpy().tolist() == [[b"", b"", b""]]


@pytest.mark.parametrize(("most", "shape"), [(8, (1, 1)), (0, (1,))])
async def test_sequence_controls_have_a_batch_dimension_as_inputs_have(tmp_path, most, shape):
    """Triton 2.51 gave both shapes to a python model with `dims: [1]`."""
    shapes = []

    def execute(batch):
        shapes.append(batch.requests[0].inputs["START"].shape)
        echo(batch)

    start = WarmupInput(DataType.INT32, (1,), WarmupData.ZERO)
    await load(tmp_path, config(sample(START=start), max_batch_size=most), execute)
    assert shapes == [shape]


async def test_decoupled_models_warm_up(tmp_path):
    def execute(batch):
        batch.respond(0, [], final=False)
        batch.end(0)

    made, statistics = await load(tmp_path, config(sample(), decoupled=True), execute)
    assert made.instances[0].batches == [[1]]
    assert statistics.success.count == 1


P = "[request id: <id_unknown>] "
TWO_INPUTS = (a_tensor("IN", DataType.INT32, 2), a_tensor("IN2", DataType.INT32, 2))


@pytest.mark.parametrize(
    ("given", "changes", "text"),
    [
        (sample(replace(ZEROS, data=None)), {}, P + "warmup setting expects input 'IN' to have input_data_type set"),
        (sample(replace(ZEROS, dims=(-1,))), {},
         "warmup setting expects all variable-size dimensions are specified for input 'IN'"),
        (sample(replace(ZEROS, dims=(3,))), {"max_batch_size": 0},
         P + "unexpected shape for input 'IN' for model 'm'. Expected [2], got [3]. "),
        (sample(), {"inputs": TWO_INPUTS},
         P + "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['IN'], but missing required input(s) "
         "['IN2']. Please provide all required input(s)."),
        (sample(batch_size=2), {"max_batch_size": 0},
         "failed to run warmup sample 's': " + 2 * "batch size 2 for 'm_0_0', max allowed is 0; "),
    ],
)  # fmt: skip
async def test_samples_that_do_not_fit(tmp_path, given, changes, text):
    with pytest.raises(InvalidArgumentError) as caught:
        await load(tmp_path, config(given, **changes))
    assert caught.value.message == text


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ("none", InternalError, "failed to open text file for read {}/warmup/none: No such file or directory"),
        ("short", InvalidArgumentError,
         P + "warmup setting expects 8 bytes, but the data provided from shortonly has 3 bytes"),
        ("../../x", InvalidArgumentError, "input_data_file '../../x' must be a path inside the model's folder"),
    ],
)  # fmt: skip
async def test_files_that_do_not_serve(tmp_path, data, error, text):
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup" / "short").write_bytes(b"123")
    with pytest.raises(error) as caught:
        await load(tmp_path, config(sample(replace(ZEROS, data=data))))
    assert caught.value.message == text.format(tmp_path)


async def test_an_error_of_the_model_fails_the_load(tmp_path):
    def execute(batch):
        raise ValueError("no")

    with pytest.raises(InferenceError) as caught:
        await load(tmp_path, config(sample(batch_size=2)), execute)
    assert caught.value.message == "failed to run warmup sample 's': no; no; "


def test_a_sample_of_many_dimensions_is_refused_before_they_are_multiplied(tmp_path):
    many = WarmupInput(DataType.INT32, (2**63 - 1,) * 100_000, WarmupData.ZERO)
    with pytest.raises(
        InvalidArgumentError, match="warmup input 'IN' has 100000 dimensions, at most 1024 are accepted"
    ):
        read_warmups(config(sample(many)), tmp_path)
