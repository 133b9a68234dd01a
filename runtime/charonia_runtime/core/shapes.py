"""Shapes that models and configurations disagree on: Triton's complaints, for the backends."""

from collections.abc import Iterable, Sequence

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.tensor import shape_text


def full_backend_shape(config: ModelConfig, spec: TensorSpec) -> tuple[int, ...]:
    """The shape that a backend sees of a configured tensor, with -1 in front for models that batch."""
    return (-1, *spec.backend_dims) if config.batches else spec.backend_dims


def wrong_shape(config: ModelConfig, spec: TensorSpec, model_shape: Sequence[int]) -> InvalidArgumentError:
    """The model has another shape than the configuration."""
    full = full_backend_shape(config, spec)
    configured = (
        f"(an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        f"complete shape {shape_text(full)})"
        if config.batches
        else f"(shape {shape_text(full)})"
    )
    return InvalidArgumentError(
        f"{_subject(config, spec)}the model expects {len(model_shape)} dimensions (shape {shape_text(model_shape)}) "
        f"but the model configuration specifies {len(full)} dimensions {configured}"
        f"{_difference(config, spec, model_shape, full)}"
    )


def _difference(config: ModelConfig, spec: TensorSpec, model_shape: Sequence[int], full: Sequence[int]) -> str:
    """Where the two differ, and what the configuration's `dims` should be: Triton leaves that to the reader."""
    if len(model_shape) != len(full):
        what = f"the model has {len(model_shape)} dimensions, config.pbtxt {len(full)}"
    else:
        pairs = [(at, *pair) for at, pair in enumerate(zip(model_shape, full, strict=True)) if pair[0] != pair[1]]
        firm = [pair for pair in pairs if pair[1] != -1]  # a size that varies in the model may be any
        places = (
            f"dimension {at} is {model} in the model, {given} in config.pbtxt" for at, model, given in firm or pairs
        )
        what = "; ".join(places)
    if spec.reshape is not None:
        return f": {what}"
    dims = model_shape[1:] if config.batches else model_shape
    return f": {what}. The model fits dims: {shape_text(dims)}"


def unfit_for_batching(config: ModelConfig, spec: TensorSpec, rest: str) -> InvalidArgumentError:
    """The model cannot batch this tensor; `rest` is what follows the demand of a first dimension."""
    return InvalidArgumentError(
        f"{_subject(config, spec)}for the model to support batching the shape should have at least 1 dimension{rest}"
    )


def listed(names: Iterable[str]) -> str:
    """Names as Triton lists what it would accept."""
    return ", ".join(sorted(names))


def _subject(config: ModelConfig, spec: TensorSpec) -> str:
    return f"model '{config.name}', tensor '{spec.name}': "
