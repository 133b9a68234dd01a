"""A loaded model as its instances see it: a function of a flat list, whose positions have names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError


class Program(Protocol):
    """What TorchScript modules and exported programs have in common."""

    input_positions: Mapping[str, int]
    """Position of every tensor that the model gets: from clients, or made for it."""
    output_positions: Mapping[str, int]
    """Position of every output and state."""

    def run(self, values: list[Any]) -> Sequence[Any]:
        """Tensors and lists of strings by position → the same. May raise whatever torch raises."""

    def wrong_datatype(self, name: str, expected: DataType, produced: DataType) -> InferenceError:
        """What to answer when output `name` is of another type than configured."""


def check_configuration(config: ModelConfig) -> None:
    """Raises InvalidArgumentError for what no PyTorch model can be configured with."""
    if not config.inputs:
        raise InvalidArgumentError("model configuration must contain at least one input, none were specified.")
    if not config.outputs:
        raise InvalidArgumentError("model configuration must contain at least one output, none were specified.")
    _check_tensors(config, "input", config.inputs)
    _check_tensors(config, "output", config.outputs)


def _check_tensors(config: ModelConfig, role: str, specs: Iterable[TensorSpec]) -> None:
    for spec in specs:
        if spec.datatype is DataType.INVALID:
            raise InternalError(
                f"unsupported datatype {spec.datatype.config_name} for {role} '{spec.name}' for model '{config.name}'"
            )
        if spec.datatype is DataType.BYTES and any(size != 1 for size in dims_behind_list(config, spec)):
            raise InvalidArgumentError(
                f"Triton only supports 1 dimensional List of String as {role} for '{spec.name}' for model "
                f"'{config.name}'"
            )


def dims_behind_list(config: ModelConfig, spec: TensorSpec) -> tuple[int, ...]:
    """What a tensor of strings has behind its only dimension, as far as a model is concerned: sizes of 1."""
    return spec.backend_dims if config.batches else spec.backend_dims[1:]


def check_positions(config: ModelConfig, positions: Mapping[str, int], count: int) -> None:
    """Raises InvalidArgumentError unless every one of the model's `count` inputs is given exactly once."""
    if len(positions) != count:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {len(positions)} inputs, model provides "
            f"{count}"
        )
    for name, position in positions.items():
        if position >= count:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', input '{name}' has index {position}, model provides {count} "
                "inputs"
            )
    if len(set(positions.values())) != count:
        raise InvalidArgumentError(f"unable to load model '{config.name}', two inputs have the same index")
