"""Rules of inputs, outputs and the tensors that backends make from batches."""

from collections.abc import Iterable, Sequence
from math import prod

from charonia_runtime.core.backend import BackendTraits
from charonia_runtime.core.config import BatchInput, BatchOutput, ModelConfig, TensorFormat, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.tensor import rank_mistake

_TENSORRT = "tensorrt_plan"
_LARGEST_INT64 = 2**63 - 1
_BATCH_INPUT_KINDS = frozenset({
    "BATCH_ELEMENT_COUNT", "BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "BATCH_ITEM_SHAPE", "BATCH_ITEM_SHAPE_FLATTEN",
})  # fmt: skip
_BATCH_OUTPUT_KIND = "BATCH_SCATTER_WITH_INPUT_SHAPE"


def validate_tensors(config: ModelConfig) -> None:
    """Raises InvalidArgumentError with Triton's text for the first wrong input, output, batch input or batch output."""
    for spec in config.inputs:
        _check_tensor(spec, config, "model input")
    for spec in config.outputs:
        _check_tensor(spec, config, "model output")
    for made in config.batch_inputs:
        _check_batch_input(made, config)
    for cut in config.batch_outputs:
        _check_batch_output(cut, config)


def validate_optional_inputs(config: ModelConfig, traits: BackendTraits) -> None:
    """Raises InvalidArgumentError for optional inputs where the backend needs all of them."""
    if traits.optional_inputs:
        return
    for spec in config.inputs:
        if spec.optional:
            raise InvalidArgumentError(
                f"'optional' is set to true for input '{spec.name}' while the backend model doesn't support optional "
                "input"
            )


def _check_tensor(spec: TensorSpec, config: ModelConfig, direction: str) -> None:
    if not spec.name:
        raise InvalidArgumentError(f"{direction} must specify 'name' for {config.name}")
    mistake = _shape_mistake(spec, batches=config.max_batch_size != 0)
    if mistake:
        raise InvalidArgumentError(f"{direction} '{spec.name}' {mistake} for {config.name}")
    mistake = _feature_mistake(spec, config.platform, direction)
    if mistake:
        raise InvalidArgumentError(f"{mistake} for {config.name}")


def _shape_mistake(spec: TensorSpec, *, batches: bool) -> str:
    """What is wrong with a tensor's type, dims or reshape; empty when nothing is."""
    if spec.datatype is DataType.INVALID:
        return "must specify 'data_type'"
    if not spec.dims:
        return "must specify 'dims'"
    mistake = rank_mistake(spec.dims) or rank_mistake(spec.reshape or ())
    if mistake:
        return mistake
    if spec.reshape == () and not batches:
        return "cannot have empty reshape for non-batching model as scalar tensors are not supported"
    if _wrong_sizes(spec.dims):
        return "dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
    if spec.reshape is not None and _wrong_sizes(spec.reshape):
        return "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension"
    if max(prod(runs) for shape in (spec.dims, spec.reshape or ()) for runs in _fixed_runs(shape)) > _LARGEST_INT64:
        return f"has more elements than {_LARGEST_INT64}"
    return "" if spec.reshape is None else _reshape_mistake(spec.dims, spec.reshape)


def _reshape_mistake(dims: Sequence[int], reshape: Sequence[int]) -> str:
    """Between two variable sizes, both shapes must have the same number of elements."""
    different = "has different size for dims and reshape"
    if (-1 in dims) != (-1 in reshape):
        return different
    before, after = _fixed_runs(dims), _fixed_runs(reshape)
    if len(before) != len(after):
        return "has different number of variable-size dimensions for dims and reshape"
    same = all(prod(left) == prod(right) for left, right in zip(before, after, strict=True))
    return "" if same else different


def _wrong_sizes(shape: Iterable[int]) -> bool:
    return any(size < 1 and size != -1 for size in shape)


def _fixed_runs(shape: Iterable[int]) -> list[list[int]]:
    """The sizes before, between and after the variable ones."""
    runs: list[list[int]] = [[]]
    for size in shape:
        if size == -1:
            runs.append([])
        else:
            runs[-1].append(size)
    return runs


def _feature_mistake(spec: TensorSpec, platform: str, direction: str) -> str:
    """What is wrong with a tensor's format; empty when nothing is."""
    if spec.format is not TensorFormat.NONE and len(spec.dims) != 3:
        return "model input NHWC/NCHW require 3 dims"
    if spec.is_shape_tensor and platform != _TENSORRT:
        return "shape tensors are only supported for TensorRT platform"
    if spec.is_non_linear_format and platform != _TENSORRT:
        return "Non-linear IO format is only supported for the TensorRT platform"
    if spec.is_non_linear_format and len(spec.dims) != 3:
        return f"Non-linear IO format {direction.removeprefix('model ')} requires 3 dims"
    return ""


def _check_batch_input(made: BatchInput, config: ModelConfig) -> None:
    if made.kind not in _BATCH_INPUT_KINDS:
        raise InvalidArgumentError(f"unknown batch input kind '{made.kind}' for {config.name}")
    if len(made.source_inputs) != 1:
        raise InvalidArgumentError(
            f"batch input kind '{made.kind}' expects 1 source input, got {len(made.source_inputs)} for {config.name}"
        )
    if made.datatype not in {DataType.INT32, DataType.FP32}:
        raise InvalidArgumentError(f"batch input data type must be TYPE_INT32 or TYPE_FP32 for {config.name}")
    _check_sources(made.source_inputs, config)


def _check_batch_output(cut: BatchOutput, config: ModelConfig) -> None:
    if cut.kind != _BATCH_OUTPUT_KIND:
        raise InvalidArgumentError(f"unknown batch output kind '{cut.kind}' for {config.name}")
    if len(cut.source_inputs) != 1:
        raise InvalidArgumentError(
            f"batch output kind '{cut.kind}' expects 1 source input, got {len(cut.source_inputs)} for {config.name}"
        )
    _check_sources(cut.source_inputs, config)
    for index, name in enumerate(cut.target_names):
        if config.output(name) is None:
            raise InvalidArgumentError(f"unknown target output name '{name}' for {config.name}")
        if name in cut.target_names[:index]:
            raise InvalidArgumentError(f"target output name '{name}' can only be specified once for {config.name}")


def _check_sources(names: Iterable[str], config: ModelConfig) -> None:
    for name in names:
        if config.input(name) is None:
            raise InvalidArgumentError(f"unknown source input name '{name}' for {config.name}")
