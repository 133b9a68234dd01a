"""Rules of the states that the server keeps for sequences."""

from collections.abc import Mapping
from typing import Any

from charonia_runtime.core.config import InstanceKind, ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import SequenceBatching
from charonia_runtime.core.tensor import rank_mistake


def validate_states(config: ModelConfig) -> None:
    """
    Raises InvalidArgumentError with Triton's text for the first wrong state or initial state.

    Runs after the instance groups are resolved. Whether a data file is there and long enough is its reader's to check.
    """
    if not isinstance(config.scheduling, SequenceBatching):
        return
    names: set[str] = set()
    for state in config.document.get("sequence_batching", {}).get("state", ()):
        name = state["input_name"]
        if name in names:
            raise InvalidArgumentError(f"State input name '{name}' specified more than once.")
        names.add(name)
        mistake = rank_mistake(state["dims"])
        if mistake:
            raise InvalidArgumentError(f"state input '{name}' {mistake} for {config.name}")
        _check_initial_state(name, state)
        _check_growable_memory(name, state, config)


def _check_initial_state(name: str, state: Mapping[str, Any]) -> None:
    initial_states = state["initial_state"]
    if len(initial_states) > 1:
        raise InvalidArgumentError(
            f"initial_state field for state input '{name}' must contain exactly one or zero element. Found "
            f"'{len(initial_states)}' elements."
        )
    for initial in initial_states:
        mistake = _initial_state_mistake(name, state, initial)
        if mistake:
            raise InvalidArgumentError(mistake)


def _initial_state_mistake(name: str, state: Mapping[str, Any], initial: Mapping[str, Any]) -> str:
    """What is wrong with an initial state; empty when nothing is."""
    sizes = [int(size) for size in initial["dims"]]
    if initial["data_type"] != state["data_type"]:
        return f"The data type used for 'initial_state' field of state '{name}' does not match the state data type."
    if not initial["name"]:
        return f"Field 'name' must be set when using initial_state for state input '{name}'."
    if len(sizes) != len(state["dims"]):
        return (
            "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input "
            f"'{name}'. {len(sizes)} != {len(state['dims'])}"
        )
    for size, dim in zip(sizes, state["dims"], strict=True):
        if size == -1:
            return f"'initial_state' field for state input name '{name}' contains variable dimensions."
        if dim not in {-1, size}:
            return f"'initial_state' dim for input name '{name}' doesn't match 'state' dim description. {size} != {dim}"
    if "zero_data" not in initial and "data_file" not in initial:
        return f"initial_state setting expects state'{name}' to have state_data set"
    return ""


def _check_growable_memory(name: str, state: Mapping[str, Any], config: ModelConfig) -> None:
    if not state["use_growable_memory"]:
        return
    if not state["use_same_buffer_for_input_output"]:
        raise InvalidArgumentError(
            "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state input name "
            f"'{name}'."
        )
    if any(group.kind is not InstanceKind.GPU for group in config.instance_groups):
        raise InvalidArgumentError(
            "'use_growable_memory' can only work with KIND_GPU model instances right now. "
            f"State input name '{name}' of model '{config.name}' has instances of another kind."
        )
