"""Names of configured tensors → positions in a model's call."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import SequenceBatching

_logger = logging.getLogger(__name__)


def position_in(name: str) -> int | None:
    """The index of a name of the form `<name>__<index>`; None for others. The first `__` counts."""
    _, _, index = name.partition("__")
    return int(index) if index.isascii() and index.isdigit() else None


def input_positions(config: ModelConfig, arguments: Sequence[str]) -> Mapping[str, int]:
    """
    Where each tensor that the model gets stands among its `arguments` (without `self`).

    All names are arguments, or all are numbered, or the order of the configuration decides. Controls, states and
    batch inputs must be arguments or numbered; raises InvalidArgumentError where they are not.
    """
    names = [spec.name for spec in config.inputs]
    if all(name in arguments for name in names):
        positions = {name: arguments.index(name) for name in names}
    else:
        positions = _numbered_or_in_order(config, names)
    for name in generated_inputs(config):
        positions[name] = arguments.index(name) if name in arguments else _required_position("input", name)
    return positions


def output_positions(config: ModelConfig) -> Mapping[str, int]:
    """Where each output stands in what the model returns: all are numbered, or the configuration's order decides."""
    positions = _numbered_or_in_order(config, [spec.name for spec in config.outputs])
    for state in config.states:
        positions[state.output_name] = _required_position("output", state.output_name)
    return positions


def generated_inputs(config: ModelConfig) -> list[str]:
    """Inputs that clients do not send: controls and states of sequences, and what is made of a batch's shape."""
    scheduling = config.scheduling
    controls = [control.name for control in scheduling.controls] if isinstance(scheduling, SequenceBatching) else []
    states = [state.input_name for state in config.states]
    made = [name for batch_input in config.batch_inputs for name in batch_input.target_names]
    return list(dict.fromkeys([*controls, *states, *made]))


def check_states(config: ModelConfig) -> None:
    """Raises InvalidArgumentError where a model with states has tensors that are not numbered."""
    names = [spec.name for spec in (*config.inputs, *config.outputs)]
    if config.states and not _all_numbered(names):
        raise InvalidArgumentError(
            f"PyTorch model '{config.name}' is using sequence batching with state but not all inputs and outputs "
            "follow the <name>__<index> naming convention. "
        )


def _numbered_or_in_order(config: ModelConfig, names: Sequence[str]) -> dict[str, int]:
    if _all_numbered(names):
        return {name: _required_position("tensor", name) for name in names}
    unclear = [name for name in names if "__" in name and position_in(name) is None]
    if unclear:
        _logger.warning(
            "model '%s': '%s' does not end in '__' and a number, so the tensors are taken in the configuration's order",
            config.name,
            unclear[0],
        )
    return {name: position for position, name in enumerate(names)}


def _all_numbered(names: Iterable[str]) -> bool:
    return all(position_in(name) is not None for name in names)


def _required_position(role: str, name: str) -> int:
    position = position_in(name)
    if position is None:
        raise InvalidArgumentError(f"{role} '{name}' does not follow <name>__<index> naming convention.")
    return position
