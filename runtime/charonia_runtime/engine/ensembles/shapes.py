"""The batch dimension where models that batch and models that do not meet: added or taken away, never copied."""

from collections.abc import Sequence

from charonia_runtime.core.tensor import Tensor


def fits(dims: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether two shapes may be the same; -1 is any size."""
    return len(dims) == len(shape) and all(
        -1 in (dim, size) or dim == size for dim, size in zip(dims, shape, strict=True)
    )


def adapted(tensor: Tensor, name: str, dims: Sequence[int], *, from_batch: bool, to_batch: bool) -> Tensor:
    """
    `tensor` under another name, for a reader whose tensor has `dims`.

    Where only the reader batches, a shape that is just `dims` gets a batch of one in front. Where only the maker did,
    the batch dimension of one row is dropped, unless the whole shape is what the reader wants. All else is left to
    the reader's own checks.
    """
    shape = tensor.shape
    if to_batch and not from_batch:
        if fits(dims, shape):
            shape = (1, *shape)
    elif from_batch and not to_batch and not fits(dims, shape) and shape[:1] == (1,):
        shape = shape[1:]
    return Tensor(name, tensor.datatype, shape, tensor.data)
