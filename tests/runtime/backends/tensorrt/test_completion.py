"""What auto-complete makes of a plan, and what is checked when a model is loaded."""

from pathlib import Path
from typing import Any

import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.scheduling import (
    ControlKind,
    Direct,
    DynamicBatching,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from tests.support.configs import a_tensor
from tests.support.tensorrt_models import Loaded, plan_config
from tests.support.tensorrt_runtime import a_plan, an_input, an_output

pytestmark = pytest.mark.usefixtures("machine")

PLAN = a_plan([an_input("IN", -1, 4)], [an_output("OUT", -1, 4)])
FIXED = a_plan([an_input("IN", 1, 4)], [an_output("OUT", 1, 4)])
UNBATCHED = a_plan([an_input("IN", 4)], [an_output("OUT", 4)])
FP32 = DataType.FP32


def test_everything_comes_from_the_plan(tmp_path: Path) -> None:
    config = Loaded(tmp_path, PLAN).config
    assert config.max_batch_size == 8
    assert isinstance(config.scheduling, DynamicBatching)
    assert config.inputs == (a_tensor("IN", FP32, 4),)
    assert config.outputs == (a_tensor("OUT", FP32, 4),)


def test_the_largest_batch_of_the_profiles_in_use(tmp_path: Path) -> None:
    plan = a_plan(
        [
            an_input("IN0", -1, 4, profiles=[[[1, 4], [1, 4], [3, 4]], [[1, 4], [4, 4], [16, 4]]]),
            an_input("IN1", -1, 4, profiles=[[[1, 4], [1, 4], [5, 4]], [[1, 4], [4, 4], [12, 4]]]),
        ],
        [an_output("OUT0", -1, 4), an_output("OUT1", -1, 4)],
    )
    for profiles, largest in [((), 3), (("1",), 12), (("0", "1"), 12)]:
        assert Loaded(tmp_path, plan, plan_config(profiles=profiles)).config.max_batch_size == largest


def test_a_plan_for_one_row_is_not_batched_with_others(tmp_path: Path) -> None:
    config = Loaded(tmp_path, FIXED).config
    assert (config.max_batch_size, config.scheduling, config.inputs[0].dims) == (1, Direct(), (4,))


def test_dims_with_the_batch_dimension_turn_batching_off(tmp_path: Path) -> None:
    config = plan_config(inputs=(a_tensor("IN", FP32, -1, 4),))
    completed = Loaded(tmp_path, PLAN, config).config
    assert (completed.max_batch_size, completed.outputs[0].dims) == (0, (-1, 4))


def test_what_is_given_stays(tmp_path: Path) -> None:
    config = plan_config(max_batch_size=2, inputs=(a_tensor("IN", FP32, -1),))
    completed = Loaded(tmp_path, PLAN, config).config
    assert (completed.max_batch_size, completed.inputs[0].dims) == (2, (-1,))


def test_gaps_in_entries_are_filled(tmp_path: Path) -> None:
    from dataclasses import replace

    entry = replace(a_tensor("IN", DataType.INVALID), dims=())
    assert Loaded(tmp_path, PLAN, plan_config(inputs=(entry,))).config.inputs == (a_tensor("IN", FP32, 4),)


def test_without_batching(tmp_path: Path) -> None:
    config = Loaded(tmp_path, UNBATCHED).config
    assert (config.max_batch_size, config.inputs[0].dims) == (0, (4,))


def test_non_linear_formats_that_pad_nothing(tmp_path: Path) -> None:
    shape, profiles = (-1, 4, 2, 2), [[[1, 4, 2, 2], [4, 4, 2, 2], [8, 4, 2, 2]]]
    plan = a_plan(
        [an_input("IN", *shape, datatype="HALF", format="CHW2", profiles=profiles)],
        [an_output("OUT", *shape, datatype="HALF", format="CHW2")],
    )
    assert Loaded(tmp_path, plan).config.inputs[0].is_non_linear_format


BOTH = {"inputs": (a_tensor("IN", FP32, 4),), "outputs": (a_tensor("OUT", FP32, 4),), "max_batch_size": 8}
CONTROL = SequenceControl("START", ControlKind.START, DataType.FP32, (0.0, 1.0))
STATE = SequenceState("IN", "NEXT", FP32, (4,))
VECTORS = a_plan([an_input("IN", -1, 3, format="CHW2")], [an_output("OUT", -1, 3)])
SHAPED = a_plan(
    [an_input("IN", 4), an_input("SIZES", 2, datatype="INT32", values=[[[1, 1], [2, 2], [8, 8]]])],
    [an_output("OUT", -1, -1), an_output("SIZES_OUT", 2, datatype="INT64", shape_tensor=True)],
    "resize",
)


@pytest.mark.parametrize(
    ("plan", "changes", "text"),
    [
        (PLAN, {"max_batch_size": 9},
         "configuration specified max-batch 9 but TensorRT engine only supports max-batch 8"),
        (UNBATCHED, {"max_batch_size": 1}, "configuration specified max-batch 1 but TensorRT engine does not batch"),
        (UNBATCHED, {"inputs": (a_tensor("IN", FP32, reshape=()),)},
         "its dims leave the first dimension to batching, but TensorRT engine does not batch"),
        (PLAN, {"inputs": (a_tensor("IN", FP32, 4),), "outputs": (a_tensor("OUT", FP32, -1, 4),)},
         "model tensor configurations are contradicting each other"),
        (PLAN, BOTH | {"inputs": (a_tensor("IN", FP32, 5),)},
         "tensor 'IN': the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2 dimensions"),
        (PLAN, BOTH | {"inputs": (a_tensor("IN", DataType.FP16, 4),)},
         "unexpected datatype TYPE_FP32 for inference input 'IN', expecting TYPE_FP16 for m_0"),
        (PLAN, BOTH | {"inputs": (a_tensor("X", FP32, 4),)},
         "unexpected inference input 'X', allowed inputs are: IN"),
        (PLAN, BOTH | {"outputs": (a_tensor("X", FP32, 4),)},
         "unexpected inference output 'X', allowed outputs are: OUT"),
        (PLAN, BOTH | {"inputs": (*BOTH["inputs"], a_tensor("MORE", FP32, 4))},
         "unable to load model 'm', configuration expects 2 inputs, model provides at most 1"),
        (a_plan([an_input("IN0", -1, 4), an_input("IN1", -1, 4)], [an_output("OUT0", -1, 4), an_output("OUT1", -1, 4)]),
         BOTH | {"inputs": (a_tensor("IN0", FP32, 4),), "outputs": (a_tensor("OUT0", FP32, 4),)},
         "expected configuration for input 'IN1' for m_0"),
        (PLAN, BOTH | {"inputs": (a_tensor("IN", FP32, 4, is_shape_tensor=True),)},
         "'IN' is incorrectly specified as a shape tensor."),
        (PLAN, BOTH | {"inputs": (a_tensor("IN", FP32, 4, is_non_linear_format=True),)},
         "'IN' uses a linear IO format, but 'is_non_linear_format_io' is incorrectly set to true in the model"),
        (VECTORS, {}, "input 'IN' of shape [-1,3] comes in vectors of 2 along dimension 1, which pads it"),
        (a_plan([an_input("IN", -1, 4, datatype="FP8")], [an_output("OUT", -1, 4)]), {},
         "unsupported datatype TYPE_INVALID for input 'IN' for model 'm'"),
        (a_plan([an_input("IN", 4), an_input("SIZES", -1, datatype="INT32", values=[[[1], [2], [8]]])],
                [an_output("OUT", -1)], "resize"), {}, "shape tensor 'SIZES' has a variable number of values"),
        (PLAN, {"scheduling": SequenceBatching(controls=(CONTROL,))}, "sequence control 'START' is not among the inputs"),
        (PLAN, {"scheduling": SequenceBatching(states=(STATE,))},
         "sequence_batching.state.output_name 'NEXT' is not among the outputs of the engine, which are: OUT"),
        (SHAPED, {"inputs": (a_tensor("IN", FP32, 4), a_tensor("SIZES", DataType.INT32, 3))},
         "shape tensor 'SIZES' must have dims [2] in the model configuration, got [3]: the engine takes 2 values"),
        (PLAN, {"parameters": {"execution_context_allocation_strategy": "LAZY"}},
         "'LAZY' for model instance 'm'. Supported values are 'STATIC' and 'ON_PROFILE_CHANGE'."),
        (PLAN, BOTH | {"instance_groups": (InstanceGroup("m", InstanceKind.CPU, 1),)},
         "unable to load model 'm', TensorRT backend supports only GPU device"),
    ],
)  # fmt: skip
def test_disagreements(tmp_path: Path, plan: bytes, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InferenceError) as caught:
        Loaded(tmp_path, plan, plan_config(**changes))
    assert text in caught.value.message
