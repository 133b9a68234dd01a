"""What the states of a sequence are before its first request: zeros, or a file of the model's folder."""

from collections.abc import Mapping
from math import prod
from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import SequenceState
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.execution.model_paths import read_model_file

_EMPTY_STRING_BYTES = 4
_FOLDER = "initial_state"


def read_initial_states(config: ModelConfig, directory: Path) -> Mapping[str, Tensor]:
    """
    The initial states of `config` by input name, out of files in `<directory>/initial_state` where it says so.

    What is not configured is zero, with 1 for each variable size. Raises InferenceError.
    """
    return {state.input_name: _initial_state(config, state, directory) for state in config.states}


def _initial_state(config: ModelConfig, state: SequenceState, directory: Path) -> Tensor:
    initial = state.initial
    dims = initial.dims if initial is not None else tuple(1 if dim == -1 else dim for dim in state.dims)
    shape = (1, *dims) if config.batches else dims
    size = prod(shape) * (state.datatype.item_size or _EMPTY_STRING_BYTES)
    data = bytes(size)
    if initial is not None and initial.data_file is not None:
        data = read_model_file(directory / _FOLDER, initial.data_file, "data_file")
        if len(data) < size:
            raise InvalidArgumentError(
                f"initial_state setting expects {size} bytes, but the data provided from {initial.data_file}only has "
                f"{len(data)} bytes."
            )
        if state.datatype.item_size:
            data = data[:size]
    return Tensor(state.input_name, state.datatype, shape, memoryview(data))
