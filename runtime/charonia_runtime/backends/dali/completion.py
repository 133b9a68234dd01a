"""Auto-complete and checks: a pipeline's description against a configuration. Texts are Triton's, mistakes included."""

import re
from dataclasses import replace

from charonia_runtime.backends.dali.description import Description, PipelineTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Direct, DynamicBatching

_WITHOUT_BATCHES = re.compile(rb"^\s*max_batch_size\s*:\s*0\s*(#.*)?$", re.MULTILINE)


def wants_no_batches(text: bytes) -> bool:
    """Whether a `config.pbtxt` says so: 0 that is written means something else than 0 that is not."""
    return _WITHOUT_BATCHES.search(text) is not None


def complete_from_pipeline(config: ModelConfig, pipeline: Description, *, batched: bool) -> ModelConfig:
    """
    Fill in max_batch_size, the scheduling choice, inputs by their names and outputs by their positions.

    Raises InvalidArgumentError where the two contradict each other.
    """
    if batched and not config.batches:
        config = replace(config, max_batch_size=pipeline.batch_size)
    if batched and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    _check_names(config, pipeline)
    given = {spec.name: spec for spec in config.inputs}
    inputs = [_input(config, given.get(tensor.name), tensor) for tensor in pipeline.inputs]
    if config.outputs:
        _check_output_count(config, pipeline)
    specs = config.outputs or [TensorSpec(tensor.name, DataType.INVALID, ()) for tensor in pipeline.outputs]
    outputs = [_completed(config, spec, tensor) for spec, tensor in zip(specs, pipeline.outputs, strict=True)]
    return replace(config, inputs=tuple(inputs), outputs=tuple(outputs))


def check_pipeline(config: ModelConfig, pipeline: Description) -> None:
    """Raises InvalidArgumentError where the configuration is not the pipeline's."""
    _check_names(config, pipeline)
    _check_output_count(config, pipeline)
    for tensor in pipeline.inputs:
        spec = config.input(tensor.name)
        if spec is None:
            raise InvalidArgumentError(f'Missing config for "{tensor.name}" input.')
        _check(config, spec, tensor)
    for spec, tensor in zip(config.outputs, pipeline.outputs, strict=True):
        _check(config, spec, tensor)
    for spec in (*config.inputs, *config.outputs):
        if spec.datatype in {DataType.INVALID, DataType.BYTES, DataType.BF16}:
            raise InvalidArgumentError(
                f"data_type {spec.datatype.config_name} of '{spec.name}' of model '{config.name}' is none of DALI's"
            )
        if spec.reshape is not None:
            raise InvalidArgumentError(
                f"model '{config.name}': the dali backend takes samples as they are, '{spec.name}' must have no reshape"
            )


def _input(config: ModelConfig, given: TensorSpec | None, tensor: PipelineTensor) -> TensorSpec:
    bare = TensorSpec(tensor.name, DataType.INVALID, (), allow_ragged=config.batches)
    return _completed(config, given or bare, tensor)


def _completed(config: ModelConfig, spec: TensorSpec, tensor: PipelineTensor) -> TensorSpec:
    _check(config, spec, tensor)
    datatype = spec.datatype if spec.datatype is not DataType.INVALID else tensor.datatype
    if datatype is None:
        raise InvalidArgumentError(f'Missing data_type config for "{spec.name}"')
    if spec.dims or tensor.rank is None:
        return replace(spec, datatype=datatype)
    # A sample without dimensions is a row of one value; without batches their number is the only dimension.
    leading = () if config.batches else (-1,)
    return replace(spec, datatype=datatype, dims=(*leading, *[-1] * tensor.rank) or (1,))


def _check(config: ModelConfig, spec: TensorSpec, tensor: PipelineTensor) -> None:
    if tensor.datatype is not None and spec.datatype not in {DataType.INVALID, tensor.datatype}:
        raise InvalidArgumentError(
            f'Mismatch of data_type config for "{spec.name}".\n'
            f"Data type defined in config: {spec.datatype.config_name}\n"
            f"Data type defined in pipeline: {tensor.datatype.config_name}"
        )
    rank = len(spec.dims) - (0 if config.batches else 1)
    if spec.dims and tensor.rank is not None and rank != tensor.rank and (rank, tensor.rank) != (1, 0):
        raise InvalidArgumentError(
            f'Mismatch in number of dimensions for "{spec.name}"\n'
            f"Number of dimensions defined in config: {rank}\n"
            f"Number of dimensions defined in pipeline: {tensor.rank}"
        )


def _check_names(config: ModelConfig, pipeline: Description) -> None:
    names = {tensor.name for tensor in pipeline.inputs}
    for spec in config.inputs:
        if spec.name not in names:
            raise InvalidArgumentError(
                f"Configuration file contains config for {spec.name} but such input is not present in the pipeline."
            )


def _check_output_count(config: ModelConfig, pipeline: Description) -> None:
    if len(config.outputs) != len(pipeline.outputs):
        raise InvalidArgumentError(
            "The number of outputs specified in the DALI pipeline and the configuration file do not match.\n"
            f"Model config outputs: {len(config.outputs)}\nPipeline outputs: {len(pipeline.outputs)}"
        )
