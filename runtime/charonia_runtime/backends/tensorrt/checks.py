"""Load-time checks of a configuration against the engine, with Triton's texts."""

from collections.abc import Mapping

from charonia_runtime.backends.tensorrt.engine import EngineDescription, EngineTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError
from charonia_runtime.core.scheduling import SequenceBatching
from charonia_runtime.core.shapes import full_backend_shape, listed, unfit_for_batching, wrong_shape
from charonia_runtime.core.tensor import shape_text


def check_engine(config: ModelConfig, engine: EngineDescription, instance: str) -> None:
    """Raises InferenceError for the first disagreement. `instance` is the name of the first one."""
    for tensor in engine.tensors:
        _check_tensor(config, tensor)
    generated = _generated(config, engine)
    _check_input_count(config, engine, generated)
    for spec in config.inputs:
        _check_spec(config, spec, engine.inputs, "input", instance)
    for spec in config.outputs:
        _check_spec(config, spec, engine.outputs, "output", instance)
    configured = {spec.name for spec in (*config.inputs, *config.outputs)} | generated.keys()
    for tensor in engine.tensors:
        if tensor.name not in configured:
            role = "input" if tensor.is_input else "output"
            raise InvalidArgumentError(f"expected configuration for {role} '{tensor.name}' for {instance}")


def _check_tensor(config: ModelConfig, tensor: EngineTensor) -> None:
    role = "input" if tensor.is_input else "output"
    if tensor.datatype is DataType.INVALID:
        raise InvalidArgumentError(
            f"unsupported datatype {tensor.datatype.config_name} for {role} '{tensor.name}' for model '{config.name}'"
        )
    if tensor.is_input and tensor.on_host and -1 in tensor.shape:
        raise UnsupportedError(
            f"unable to load model '{config.name}', shape tensor '{tensor.name}' has a variable number of values"
        )
    if tensor.may_be_padded:
        raise UnsupportedError(
            f"unable to load model '{config.name}', {role} '{tensor.name}' of shape {shape_text(tensor.shape)} comes "
            f"in vectors of {tensor.vector_length} along dimension {tensor.vector_axis}, which pads it: build the plan "
            "with linear inputs and outputs"
        )


def _generated(config: ModelConfig, engine: EngineDescription) -> Mapping[str, str]:
    """
    Tensors that clients neither send nor see, and the field that names each.

    Raises InvalidArgumentError for those that the engine does not have.
    """
    names = {name: "batch_input" for made in config.batch_inputs for name in made.target_names}
    if isinstance(config.scheduling, SequenceBatching):
        names |= {control.name: "sequence control" for control in config.scheduling.controls}
        names |= {state.input_name: "sequence_batching.state.input_name" for state in config.states}
    for name, field in names.items():
        if name not in engine.inputs:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', {field} '{name}' is not among the inputs of the engine, which "
                f"are: {listed(engine.inputs)}"
            )
    for state in config.states:
        if state.output_name not in engine.outputs:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', sequence_batching.state.output_name '{state.output_name}' is "
                f"not among the outputs of the engine, which are: {listed(engine.outputs)}"
            )
        names[state.output_name] = "sequence_batching.state.output_name"
    return names


def _check_input_count(config: ModelConfig, engine: EngineDescription, generated: Mapping[str, str]) -> None:
    expected = len(config.inputs) + sum(name in engine.inputs for name in generated)
    if expected > len(engine.inputs):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {expected} inputs, model provides at most "
            f"{len(engine.inputs)}"
        )


def _check_spec(
    config: ModelConfig, spec: TensorSpec, tensors: Mapping[str, EngineTensor], role: str, instance: str
) -> None:
    tensor = tensors.get(spec.name)
    if tensor is None:
        raise InvalidArgumentError(f"unexpected inference {role} '{spec.name}', allowed {role}s are: {listed(tensors)}")
    if spec.datatype is not tensor.datatype:
        raise InvalidArgumentError(
            f"unexpected datatype TYPE_{tensor.datatype.wire_name} for inference {role} '{spec.name}', expecting "
            f"{spec.datatype.config_name} for {instance}"
        )
    _check_flags(spec, tensor)
    if tensor.is_shape_tensor:
        _check_value_count(config, spec, tensor)
    elif spec.allow_ragged:
        if tensor.shape != (-1,):
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', configuration expects model provides input with shape [-1] for "
                f"ragged input '{spec.name}', model provides {shape_text(tensor.shape)}"
            )
    elif not any(spec.name in cut.target_names for cut in config.batch_outputs):
        _check_shape(config, spec, tensor)


def _check_flags(spec: TensorSpec, tensor: EngineTensor) -> None:
    if spec.is_shape_tensor and not tensor.is_shape_tensor:
        raise InvalidArgumentError(f"'{spec.name}' is incorrectly specified as a shape tensor.")
    if tensor.is_shape_tensor and not spec.is_shape_tensor:
        raise InvalidArgumentError(
            f"'{spec.name}' is a shape tensor: 'is_shape_tensor' must be true in the model configuration."
        )
    if spec.is_non_linear_format and tensor.is_linear:
        raise InvalidArgumentError(
            f"'{spec.name}' uses a linear IO format, but 'is_non_linear_format_io' is incorrectly set to true in the "
            "model configuration."
        )
    if not spec.is_non_linear_format and not tensor.is_linear:
        raise InvalidArgumentError(
            f"'{spec.name}' uses a non-linear IO format: 'is_non_linear_format_io' must be true in the model "
            "configuration."
        )


def _check_shape(config: ModelConfig, spec: TensorSpec, tensor: EngineTensor) -> None:
    if config.batches and (not tensor.shape or tensor.shape[0] not in {-1, config.max_batch_size}):
        raise unfit_for_batching(config, spec, "")
    full = full_backend_shape(config, spec)
    scalar = not tensor.shape and not config.batches and all(size == 1 for size in full)
    fits = len(full) == len(tensor.shape) and all(
        -1 in {configured, size} or configured == size for configured, size in zip(full, tensor.shape, strict=True)
    )
    if not fits and not scalar:
        raise wrong_shape(config, spec, tensor.shape)


def _check_value_count(config: ModelConfig, spec: TensorSpec, tensor: EngineTensor) -> None:
    """The engine has one value more where the model batches: the number of rows, which stays with the server."""
    count = tensor.shape[0] if tensor.shape else 1
    expected = count - 1 if config.batches else count
    if spec.dims != (expected,):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', shape tensor '{spec.name}' must have dims [{expected}] in the "
            f"model configuration, got {shape_text(spec.dims)}: the engine takes {count} values"
            + (", the first of which is the batch size" if expected != count else "")
        )
