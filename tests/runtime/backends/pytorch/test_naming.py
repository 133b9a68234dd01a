"""Names of tensors → positions in a call."""

import logging

import pytest

from charonia_runtime.backends.pytorch.naming import check_states, input_positions, output_positions, position_in
from charonia_runtime.core.config import BatchInput, ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import ControlKind, SequenceBatching, SequenceControl, SequenceState
from tests.support.configs import a_config, a_tensor

STATE = SequenceState("STATE__1", "NEW__1", DataType.FP32, (1,))


def named(*inputs: str, outputs: tuple[str, ...] = ("OUTPUT__0",), **changes: object) -> ModelConfig:
    return a_config(
        inputs=tuple(a_tensor(name) for name in inputs), outputs=tuple(a_tensor(name) for name in outputs), **changes
    )


@pytest.mark.parametrize(
    ("name", "position"),
    [("INPUT__0", 0), ("x__12", 12), ("__3", 3), ("INPUT", None), ("a__b__1", None), ("a___1", None), ("a__", None),
     ("a__1b", None), ("a__²", None)],
)  # fmt: skip
def test_the_first_double_underscore_counts(name: str, position: int | None) -> None:
    assert position_in(name) == position


@pytest.mark.parametrize(
    ("inputs", "arguments", "positions"),
    [
        (("y", "x"), ("x", "y"), {"y": 1, "x": 0}),
        (("IN__1", "IN__0"), ("x", "y"), {"IN__1": 1, "IN__0": 0}),
        (("y", "IN__0"), ("x", "y"), {"y": 0, "IN__0": 1}),
        (("b", "a"), ("x", "y"), {"b": 0, "a": 1}),
        (("x__1", "x__0"), ("x__0", "x__1"), {"x__1": 1, "x__0": 0}),
    ],
)
def test_one_rule_holds_for_all_inputs(
    inputs: tuple[str, ...], arguments: tuple[str, ...], positions: dict[str, int]
) -> None:
    assert input_positions(named(*inputs), arguments) == positions


def test_names_that_look_numbered_but_are_not_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert output_positions(named("a", outputs=("OUT__a", "OUT__0"))) == {"OUT__a": 0, "OUT__0": 1}
    assert "OUT__a" in caplog.text


def test_tensors_that_clients_do_not_send_are_numbered() -> None:
    control = SequenceControl("START__2", ControlKind.START, DataType.FP32, (0, 1))
    made = BatchInput("BATCH_ELEMENT_COUNT", ("COUNT__3",), DataType.FP32, ("IN__0",))
    config = named("IN__0", scheduling=SequenceBatching(controls=(control,), states=(STATE,)), batch_inputs=(made,))
    assert input_positions(config, ("a", "b", "c", "d")) == {"IN__0": 0, "START__2": 2, "STATE__1": 1, "COUNT__3": 3}
    assert output_positions(config) == {"OUTPUT__0": 0, "NEW__1": 1}


def test_a_control_must_be_numbered() -> None:
    control = SequenceControl("START", ControlKind.START, DataType.FP32, (0, 1))
    with pytest.raises(InvalidArgumentError) as caught:
        input_positions(named("IN__0", scheduling=SequenceBatching(controls=(control,))), ("a", "b"))
    assert caught.value.message == "input 'START' does not follow <name>__<index> naming convention."


def test_models_with_states_have_numbered_tensors_only() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_states(named("IN", scheduling=SequenceBatching(states=(STATE,))))
    assert caught.value.message == (
        "PyTorch model 'simple' is using sequence batching with state but not all inputs and outputs follow the "
        "<name>__<index> naming convention. "
    )
