"""Inputs made from the shape of a batch, and outputs cut by the shape of an input."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import BatchInput, BatchOutput, ModelConfig
from charonia_runtime.core.errors import InternalError, InvalidArgumentError

_Shapes = Sequence[tuple[int, ...]]


def batch_input(batch: Batch, spec: BatchInput) -> npt.NDArray[Any]:
    """The tensor that every target of `spec` gets for this batch."""
    source = spec.source_inputs[0]
    shapes = [request.inputs[source].shape for request in batch.requests]
    made = _MAKERS[spec.kind](shapes, [request.batch_size for request in batch.requests])
    return made.astype(spec.datatype.numpy_dtype)


def _element_counts(shapes: _Shapes, _rows: Sequence[int]) -> npt.NDArray[Any]:
    return np.array([prod(shape) for shape in shapes])


def _accumulated(shapes: _Shapes, rows: Sequence[int]) -> npt.NDArray[Any]:
    return np.cumsum(_element_counts(shapes, rows))


def _accumulated_with_zero(shapes: _Shapes, rows: Sequence[int]) -> npt.NDArray[Any]:
    return np.concatenate([[0], _accumulated(shapes, rows)])


def _maximum_as_shape(shapes: _Shapes, rows: Sequence[int]) -> npt.NDArray[Any]:
    return np.zeros(_element_counts(shapes, rows).max())


def _item_shapes(shapes: _Shapes, rows: Sequence[int]) -> npt.NDArray[Any]:
    return np.array([shape[1:] for shape, count in zip(shapes, rows, strict=True) for _ in range(count)])


def _item_shapes_flat(shapes: _Shapes, rows: Sequence[int]) -> npt.NDArray[Any]:
    return _item_shapes(shapes, rows).reshape(-1)


_MAKERS: Mapping[str, Callable[[_Shapes, Sequence[int]], npt.NDArray[Any]]] = {
    "BATCH_ELEMENT_COUNT": _element_counts,
    "BATCH_ACCUMULATED_ELEMENT_COUNT": _accumulated,
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": _accumulated_with_zero,
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": _maximum_as_shape,
    "BATCH_ITEM_SHAPE": _item_shapes,
    "BATCH_ITEM_SHAPE_FLATTEN": _item_shapes_flat,
}
_SCATTER = "BATCH_SCATTER_WITH_INPUT_SHAPE"


def check_kinds(config: ModelConfig) -> None:
    """Raises InvalidArgumentError for a kind that is unknown."""
    for index, made in enumerate(config.batch_inputs):
        if made.kind not in _MAKERS:
            raise InvalidArgumentError(
                f"batch_input[{index}].kind '{made.kind}' of model '{config.name}' must be one of {', '.join(_MAKERS)}"
            )
    for index, cut in enumerate(config.batch_outputs):
        if cut.kind != _SCATTER:
            raise InvalidArgumentError(
                f"batch_output[{index}].kind '{cut.kind}' of model '{config.name}' must be {_SCATTER}"
            )


def cut_output(batch: Batch, spec: BatchOutput, name: str, flat: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Output `name`, one piece for each request. Raises InternalError when the model produced too little."""
    pieces: list[npt.NDArray[Any]] = []
    elements, at = flat.reshape(-1), 0
    for request in batch.requests:
        shape = _piece_shape(batch.config, spec, name, request.inputs[spec.source_inputs[0]].shape)
        end = at + prod(shape)
        if end > elements.size:
            raise InternalError(
                f"failed to split the output tensor '{name}' in responses: expected at least {end} elements in model "
                f"output, got {elements.size}"
            )
        pieces.append(elements[at:end].reshape(shape))
        at = end
    return pieces


def _piece_shape(config: ModelConfig, spec: BatchOutput, name: str, source_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The output's dims with each -1 replaced by the source's variable sizes, in order."""
    source, output = config.input(spec.source_inputs[0]), config.output(name)
    if source is None or output is None:
        raise InternalError(f"batch_output of '{name}' names a tensor that is not configured")
    variable = iter([
        size for size, dim in zip(source_shape, config.full_shape(source), strict=True) if dim == -1
    ])  # fmt: skip
    return tuple(next(variable, 1) if dim == -1 else dim for dim in config.full_shape(output))
