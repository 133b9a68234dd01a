"""
Shapes on both sides of a configured `reshape`.

Clients see a tensor's `dims`, backends and the steps of an ensemble see `reshape.shape`. The batch dimension stays in
front, and sizes of -1 are carried over in their order (model configuration, "Reshape").
"""

from collections.abc import Sequence
from math import prod

from charonia_runtime.core.config import TensorSpec
from charonia_runtime.core.errors import InternalError


def backend_shape(spec: TensorSpec, shape: Sequence[int], *, batches: bool) -> tuple[int, ...]:
    """Return the shape that the model sees of an input that came as `shape`, which fits `spec.dims`."""
    lead = 1 if batches else 0
    sizes = _variable_sizes(spec.dims, shape[lead:])
    return (*shape[:lead], *_filled(spec.backend_dims, sizes))


def client_shape(spec: TensorSpec, shape: Sequence[int], *, batches: bool) -> tuple[int, ...]:
    """
    Return the shape that the client sees of an output that the model made as `shape`.

    Raises InternalError with Triton's text when the model made another number of elements.
    """
    lead = 1 if batches else 0
    sizes = _variable_sizes(spec.backend_dims, shape[lead:])
    found = (*shape[:lead], *_filled(spec.dims, sizes))
    if prod(found) != prod(shape):
        raise InternalError(f"output tensor shape does not match size of output for '{spec.name}'")
    return found


def _variable_sizes(dims: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Sizes in `shape` where `dims` says -1; shorter where a model made fewer dimensions than configured."""
    return [size for size, dim in zip(shape, dims, strict=False) if dim == -1]


def _filled(dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """`dims` with each -1 replaced by the next of `sizes`; 0 where there are none left, so that no output fits."""
    rest = iter(sizes)
    return [next(rest, 0) if dim == -1 else dim for dim in dims]
