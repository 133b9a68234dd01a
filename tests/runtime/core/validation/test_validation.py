"""Every mistake of the tables is refused with its text, at its time; what Triton accepts is accepted."""

from dataclasses import replace

import pytest

from charonia_runtime.core.backend import BackendTraits
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, UnsupportedError
from charonia_runtime.core.instances import resolve_instance_groups
from charonia_runtime.core.platforms import derive_backend
from charonia_runtime.core.scheduling import SequenceBatching, SequenceState
from charonia_runtime.core.validation import (
    refuse_unsupported,
    validate_config,
    validate_optional_inputs,
    validate_states,
    validate_tensors,
)
from charonia_runtime.protocols.model_config import complete, parse_text
from tests.support import load_time_mistakes, poll_time_mistakes
from tests.support.configs import a_config, a_tensor
from tests.support.printed_configs import PRINTED_BY_TRITON

POLL_TIME = (*poll_time_mistakes.TOLD_BY_TRITON, *poll_time_mistakes.TOLD_BY_NEWER_TRITON)
TENSORRT = {"backend": "tensorrt", "platform": "tensorrt_plan"}
LOAD_TIME = (*load_time_mistakes.TOLD_BY_TRITON, *load_time_mistakes.TOLD_BY_NEWER_TRITON)


def poll(name: str, text: str) -> ModelConfig:
    """What a repository does with a model; all but two have a `model.py`."""
    config = parse_text(text.encode(), "config.pbtxt")
    files = {} if name in {"nobackend", "en_noplat"} else {"model.py": False}
    config = complete(derive_backend(replace(config, name=config.name or name), files))
    validate_config(config, name)
    return config


def load(config: ModelConfig) -> ModelConfig:
    """What loading a version adds."""
    validate_tensors(config)
    config = complete(resolve_instance_groups(config, BackendTraits(), ()))
    validate_states(config)
    return config


@pytest.mark.parametrize(("name", "text", "expected"), POLL_TIME, ids=[case[0] for case in POLL_TIME])
def test_polling_refuses(name: str, text: str, expected: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        poll(name, text)
    assert raised.value.message == expected


@pytest.mark.parametrize(("name", "text", "expected"), LOAD_TIME, ids=[case[0] for case in LOAD_TIME])
def test_loading_refuses_what_polling_let_pass(name: str, text: str, expected: str) -> None:
    config = poll(name, text)
    with pytest.raises(InferenceError) as raised:
        load(config)
    assert raised.value.reason == expected


@pytest.mark.parametrize(("name", "text"), [case[:2] for case in PRINTED_BY_TRITON if case[0] != "enum99"])
def test_what_triton_loads_is_accepted(name: str, text: str) -> None:
    config = load(poll(name, text))
    refuse_unsupported(config)


@pytest.mark.parametrize(
    "text",
    [
        'backend:"python" dynamic_batching{}',
        'backend:"python"',
        'backend:"python" max_batch_size:4 dynamic_batching{preserve_ordering:true default_queue_policy{timeout_action:DELAY}}',
        'backend:"python" max_batch_size:4 sequence_batching{direct{minimum_slot_utilization:0}}',
        'backend:"python" max_batch_size:4 sequence_batching{direct{minimum_slot_utilization:1}}',
        'backend:"python" max_batch_size:1 input{name:"I" data_type:TYPE_INT32 dims:[1] reshape{}}',
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[2,4,-1,6] reshape{shape:[8,-1,1,6]}}',
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:1} output{name:"I" data_type:TYPE_INT32 dims:1}',
    ],
)
def test_surprising_but_accepted(text: str) -> None:
    load(poll("m", text))


def test_optional_inputs_need_a_backend_that_knows_them() -> None:
    config = a_config(inputs=(a_tensor("NEEDED"), a_tensor("MAYBE", optional=True)))
    validate_optional_inputs(config, BackendTraits(optional_inputs=True))
    with pytest.raises(InvalidArgumentError) as raised:
        validate_optional_inputs(config, BackendTraits())
    assert raised.value.message == (
        "'optional' is set to true for input 'MAYBE' while the backend model doesn't support optional input"
    )


def test_growable_states_need_gpu_instances() -> None:
    state = SequenceState("IN", "OUT", DataType.FP32, (1,), use_same_buffer=True, use_growable_memory=True)
    on_gpu = a_config(
        scheduling=SequenceBatching(states=(state,)), instance_groups=(InstanceGroup("g", InstanceKind.GPU, 1, (0,)),)
    )
    validate_states(on_gpu)
    with pytest.raises(InvalidArgumentError, match="can only work with KIND_GPU model instances right now"):
        validate_states(complete(replace(on_gpu, instance_groups=(InstanceGroup("g", InstanceKind.CPU, 1),))))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"parameters": {"TRITON_BATCH_STRATEGY_PATH": "x.so"}}, 'parameters["TRITON_BATCH_STRATEGY_PATH"]'),
        (TENSORRT | {"inputs": (a_tensor("A"), a_tensor("B", is_shape_tensor=True))}, "input[1].is_shape_tensor"),
        (TENSORRT | {"outputs": (a_tensor("A", is_non_linear_format=True),)}, "output[0].is_non_linear_format_io"),
    ],
)
def test_what_is_not_supported_is_refused_by_its_path(changes: dict[str, object], field: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        refuse_unsupported(a_config("m", **changes))
    assert raised.value.message.startswith(f"'{field}' of model 'm' ")


def test_metric_tags_must_be_labels() -> None:
    refuse_unsupported(a_config(metric_tags={"team_1": "anything: goes", "0": "x"}))
    for tag in ("a-b", "a b", "é", "a\n"):
        with pytest.raises(InvalidArgumentError, match="only letters, digits and underscores"):
            refuse_unsupported(a_config(metric_tags={tag: "x"}))


def test_more_dimensions_than_any_array_has_are_refused_before_they_are_multiplied() -> None:
    many = "9223372036854775807," * 200_000 + "1"
    for text in (
        f'input{{name:"I" data_type:TYPE_INT32 dims:[{many}]}}',
        f'output{{name:"O" data_type:TYPE_INT32 dims:[{many}]}}',
        f'max_batch_size:1 input{{name:"I" data_type:TYPE_INT32 dims:[1] reshape{{shape:[{many}]}}}}',
        f'sequence_batching{{state{{input_name:"S" output_name:"S" data_type:TYPE_INT32 dims:[{many}]}}}}',
    ):
        with pytest.raises(InvalidArgumentError, match="has 200001 dimensions, at most 1024 are accepted"):
            load(poll("m", f'backend:"python" {text}'))
