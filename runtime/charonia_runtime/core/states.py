"""Implicit state: tensors that a model makes of one request of a sequence and gets with the next."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import AnyArray, on_host
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import SequenceState
from charonia_runtime.core.tensor import Tensor, shape_text

SequenceStates = dict[str, Tensor]
"""The states of one sequence, by the names of the inputs that they become."""
_Outputs = Mapping[str, AnyArray]


def take_states(
    config: ModelConfig, requests: Sequence[InferenceRequest], outputs: _Outputs
) -> tuple[list[SequenceStates], _Outputs]:
    """
    The new states of each request's sequence out of a batch's outputs, and the outputs that clients may see.

    A state that the model did not produce is left out: it stays as it was. Raises InternalError for a state of another
    type or shape than the configuration says.
    """
    taken: list[SequenceStates] = [{} for _ in requests]
    hidden: set[str] = set()
    for state in config.states:
        produced = outputs.get(state.output_name)
        if produced is None:
            continue
        array = on_host(produced)
        _check(config, state, array, sum([request.batch_size for request in requests]))
        if config.output(state.output_name) is None:
            hidden.add(state.output_name)
        if not config.batches:
            taken[0][state.input_name] = Tensor.from_numpy(state.input_name, array, state.datatype)
            continue
        start = 0
        for states, request in zip(taken, requests, strict=True):
            rows = array[start : start + request.batch_size]
            if len(requests) > 1:
                # A view would keep the whole batch's output in memory for as long as one of its sequences pauses.
                rows = rows.copy()
            states[state.input_name] = Tensor.from_numpy(state.input_name, rows, state.datatype)
            start += request.batch_size
    return taken, {name: array for name, array in outputs.items() if name not in hidden}


def _check(config: ModelConfig, state: SequenceState, array: npt.NDArray[Any], rows: int) -> None:
    datatype = DataType.from_numpy(array.dtype)
    if array.dtype != state.datatype.numpy_dtype and datatype is not state.datatype:
        raise InternalError(
            f"state '{state.output_name}' of model '{config.name}' has data-type {state.datatype.wire_name}, but the "
            f"model produced {datatype.wire_name}"
        )
    sizes = array.shape[1:] if config.batches else array.shape
    complete = not config.batches or array.shape[:1] >= (rows,)
    if (
        not complete
        or len(sizes) != len(state.dims)
        or any(dim not in {-1, size} for dim, size in zip(state.dims, sizes, strict=True))
    ):
        expected = (rows, *state.dims) if config.batches else state.dims
        raise InternalError(
            f"state '{state.output_name}' of model '{config.name}' has shape {shape_text(expected)}, but the model "
            f"produced {shape_text(array.shape)}"
        )
