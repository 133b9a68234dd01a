"""Auto-complete: what an engine tells and the configuration leaves open."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from charonia_runtime.backends.tensorrt.engine import EngineDescription, EngineTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Direct, DynamicBatching, SequenceBatching


def complete_from_engine(config: ModelConfig, engine: EngineDescription, profiles: Sequence[int]) -> ModelConfig:
    """
    Fill in max_batch_size, the scheduling choice, missing lists of tensors, and what their entries leave open.

    `profiles` are those of the first instance group. Raises InvalidArgumentError when the configuration wants what the
    engine cannot do.
    """
    config = _complete_batching(config, engine, profiles)
    hidden = _kept_by_server(config)
    return replace(
        config,
        inputs=_complete(config.inputs, engine.inputs, config.batches, hidden),
        outputs=_complete(config.outputs, engine.outputs, config.batches, hidden),
    )


def _kept_by_server(config: ModelConfig) -> frozenset[str]:
    """The controls, states and batch inputs: tensors of the engine, but not of its clients."""
    names = {name for made in config.batch_inputs for name in made.target_names}
    if isinstance(config.scheduling, SequenceBatching):
        names |= {control.name for control in config.scheduling.controls}
        names |= {name for state in config.states for name in (state.input_name, state.output_name)}
    return frozenset(names)


def _complete_batching(config: ModelConfig, engine: EngineDescription, profiles: Sequence[int]) -> ModelConfig:
    largest = engine.largest_batch(profiles)
    if config.max_batch_size > largest:
        problem = f"TensorRT engine only supports max-batch {largest}" if largest else "TensorRT engine does not batch"
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration specified max-batch {config.max_batch_size} but "
            f"{problem}"
        )
    said = _says_batching(config, engine)
    if not config.batches and said is not False:
        if said and not largest:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', its dims leave the first dimension to batching, but TensorRT "
                "engine does not batch"
            )
        config = replace(config, max_batch_size=largest)
    if config.max_batch_size > 1 and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    return config


def _says_batching(config: ModelConfig, engine: EngineDescription) -> bool | None:
    """
    Whether the configured dims leave room for a batch dimension; None where there are no dims.

    Raises InvalidArgumentError where tensors say different things.
    """
    said: dict[bool, str] = {}
    scattered = {name for cut in config.batch_outputs for name in cut.target_names}
    tensors = {tensor.name: tensor for tensor in engine.tensors}
    for spec in (*config.inputs, *config.outputs):
        tensor = tensors.get(spec.name)
        if tensor is None or not spec.dims or spec.allow_ragged or spec.name in scattered:
            continue  # what is flat says nothing
        # A shape tensor has one dimension, whose size is the number of its values.
        given = spec.dims[0] if tensor.is_shape_tensor else len(spec.backend_dims)
        has = tensor.shape[0] if tensor.is_shape_tensor and tensor.shape else len(tensor.shape)
        if given not in {has, has - 1}:
            continue  # the checks will say so
        said.setdefault(given == has - 1, spec.name)
    if len(said) > 1:
        raise InvalidArgumentError(
            f"unable to autofill for '{config.name}', model tensor configurations are contradicting each other in "
            f"terms of whether batching is supported: the dims of '{said[True]}' leave room for a batch dimension, "
            f"those of '{said[False]}' do not"
        )
    return next(iter(said), None)


def _complete(
    given: Sequence[TensorSpec], tensors: Mapping[str, EngineTensor], batches: bool, hidden: Collection[str]
) -> tuple[TensorSpec, ...]:
    """The configured tensors with their gaps filled; all of the engine's where none is configured."""
    if given:
        return tuple(_filled(spec, tensors.get(spec.name), batches) for spec in given)
    return tuple(_specs([tensor for tensor in tensors.values() if tensor.name not in hidden], batches))


def _filled(spec: TensorSpec, tensor: EngineTensor | None, batches: bool) -> TensorSpec:
    if tensor is None:
        return spec
    if spec.datatype is DataType.INVALID:
        spec = replace(spec, datatype=tensor.datatype)
    if not spec.dims:
        spec = replace(spec, dims=_dims(tensor, batches) or (1,))
    return replace(
        spec,
        is_shape_tensor=spec.is_shape_tensor or tensor.is_shape_tensor,
        is_non_linear_format=spec.is_non_linear_format or not tensor.is_linear,
    )


def _specs(tensors: Iterable[EngineTensor], batches: bool) -> Iterable[TensorSpec]:
    for tensor in tensors:
        dims = _dims(tensor, batches)
        yield TensorSpec(
            tensor.name,
            tensor.datatype,
            dims or (1,),
            reshape=None if dims else (),
            is_shape_tensor=tensor.is_shape_tensor,
            is_non_linear_format=not tensor.is_linear,
        )


def _dims(tensor: EngineTensor, batches: bool) -> tuple[int, ...]:
    """As a configuration has them: without the batch dimension, or the value that stands for it."""
    if not batches:
        return tensor.shape
    return (tensor.shape[0] - 1,) if tensor.is_shape_tensor else tensor.shape[1:]
