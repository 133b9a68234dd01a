"""Load-time checks of a configuration against the graph, with Triton's texts."""

from collections.abc import Iterable, Mapping, Sequence

from charonia_runtime.backends.onnxruntime.graph import Graph, GraphTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.scheduling import SequenceBatching, SequenceControl, SequenceState
from charonia_runtime.core.shapes import full_backend_shape, listed, unfit_for_batching, wrong_shape
from charonia_runtime.core.tensor import shape_text


def check_graph(config: ModelConfig, graph: Graph) -> None:
    """Raises InvalidArgumentError or InternalError for the first disagreement."""
    controls, states = _sequence_inputs(config)
    for control in controls:
        _check_control(config, control, graph.inputs)
    _check_input_count(config, graph, len(controls) + states)
    accepted = {**graph.inputs, **graph.initializers}
    for spec in config.inputs:
        _check_input(config, spec, accepted)
    for state in config.states:
        _check_state(config, state, graph)
    scattered = {name for output in config.batch_outputs for name in output.target_names}
    for spec in config.outputs:
        _check_output(config, spec, graph.outputs, any_shape=spec.name in scattered)


def _sequence_inputs(config: ModelConfig) -> tuple[tuple[SequenceControl, ...], int]:
    if isinstance(config.scheduling, SequenceBatching):
        return config.scheduling.controls, len(config.scheduling.states)
    return (), 0


def _check_input_count(config: ModelConfig, graph: Graph, sequence_inputs: int) -> None:
    required = sum(not spec.optional for spec in config.inputs)
    generated = sum(len(batch_input.target_names) for batch_input in config.batch_inputs)
    expected = required + generated + sequence_inputs
    if expected != len(graph.inputs):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {expected} inputs, model provides "
            f"{len(graph.inputs)}"
        )


def _check_input(config: ModelConfig, spec: TensorSpec, accepted: Mapping[str, GraphTensor]) -> None:
    if spec.optional and config.batches:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', optional input '{spec.name}' is not supported for models that "
            "support batching"
        )
    if spec.name not in accepted:
        raise InvalidArgumentError(f"unexpected inference input '{spec.name}', allowed inputs are: {listed(accepted)}")
    tensor = accepted[spec.name]
    _check_datatype(config, spec, tensor, "input")
    if spec.allow_ragged:
        _check_ragged(config, spec, tensor)
    else:
        _check_shape(config, spec, tensor, exact=False)


def _check_output(
    config: ModelConfig, spec: TensorSpec, outputs: Mapping[str, GraphTensor], *, any_shape: bool
) -> None:
    if spec.name not in outputs:
        raise InvalidArgumentError(f"unexpected inference output '{spec.name}', allowed outputs are: {listed(outputs)}")
    _check_datatype(config, spec, outputs[spec.name], "output")
    if not any_shape:
        _check_shape(config, spec, outputs[spec.name], exact=True)


def _check_datatype(config: ModelConfig, spec: TensorSpec, tensor: GraphTensor, role: str) -> None:
    if spec.datatype is DataType.INVALID:
        raise InternalError(
            f"unsupported datatype {spec.datatype.config_name} for {role} '{spec.name}' for model '{config.name}'"
        )
    if spec.datatype is not tensor.datatype:
        # Triton prints the wire's name of a type here: TYPE_BYTES, not TYPE_STRING.
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects datatype {spec.datatype.config_name} for "
            f"{role} '{spec.name}', model provides TYPE_{tensor.datatype.wire_name}"
        )


def _check_ragged(config: ModelConfig, spec: TensorSpec, tensor: GraphTensor) -> None:
    complaint = f"unable to load model '{config.name}', configuration expects model provides input with shape [-1] "
    if spec.optional:
        raise InvalidArgumentError(
            f"{complaint}for ragged input '{spec.name}', which is not supported for optional input"
        )
    if tensor.shape != (-1,):
        raise InvalidArgumentError(
            f"{complaint} for ragged input '{spec.name}', model provides {shape_text(tensor.shape)}"
        )


def _check_shape(config: ModelConfig, spec: TensorSpec, tensor: GraphTensor, *, exact: bool) -> None:
    if not tensor.shape:
        _check_scalar(config, spec, spec.backend_dims)
        return
    if config.batches and tensor.shape[0] != -1:
        raise unfit_for_batching(
            config,
            spec,
            f" and the first dimension must be -1; but shape expected by the model is {shape_text(tensor.shape)}",
        )
    full = full_backend_shape(config, spec)
    if len(full) != len(tensor.shape) or not all(
        model == configured or (model == -1 and not exact) for model, configured in zip(tensor.shape, full, strict=True)
    ):
        raise wrong_shape(config, spec, tensor.shape)


def _check_scalar(config: ModelConfig, spec: TensorSpec, dims: Iterable[int]) -> None:
    if any(dim != 1 for dim in dims):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', scalar tensor '{spec.name}', should only provide 1 in the model "
            "configuration when the model doesn't support batching. Model configuration provided: "
            f"{shape_text(tuple(dims))}."
        )


def _check_control(config: ModelConfig, control: SequenceControl, inputs: Mapping[str, GraphTensor]) -> None:
    tensor = inputs.get(control.name)
    if tensor is None:
        raise InternalError(
            f"configuration specified sequence control '{control.name}', but model does not provide that input"
        )
    subject = f"unable to load model '{config.name}', sequence control '{control.name}'"
    dims = tensor.shape[1:] if config.batches else tensor.shape
    if dims != (1,):
        raise InvalidArgumentError(f"{subject} in model has dims {shape_text(dims)} but dims [1] is expected")
    if tensor.datatype is not control.datatype:
        raise InvalidArgumentError(
            f"{subject}, the model expects data-type {tensor.element} but the model configuration specifies data-type "
            f"{control.datatype.config_name}"
        )


def _check_state(config: ModelConfig, state: SequenceState, graph: Graph) -> None:
    """A state's two ends, named by their fields; where the graph or the configuration says -1, any size will do."""
    ends = (("input_name", state.input_name, graph.inputs), ("output_name", state.output_name, graph.outputs))
    for field, name, tensors in ends:
        subject = f"unable to load model '{config.name}', sequence_batching.state.{field} '{name}'"
        tensor = tensors.get(name)
        if tensor is None:
            raise InvalidArgumentError(f"{subject} is not in the model, which has: {listed(tensors)}")
        if tensor.datatype is not state.datatype:
            raise InvalidArgumentError(
                f"{subject} has data-type TYPE_{tensor.datatype.wire_name} in the model but "
                f"{state.datatype.config_name} in the configuration"
            )
        full = (-1, *state.dims) if config.batches else state.dims
        if tensor.shape and not _may_be_equal(tensor.shape, full):
            raise InvalidArgumentError(
                f"{subject} has shape {shape_text(tensor.shape)} in the model but {shape_text(full)} in the "
                "configuration"
            )


def _may_be_equal(shape: Sequence[int], other: Sequence[int]) -> bool:
    return len(shape) == len(other) and all(
        left == right or -1 in {left, right} for left, right in zip(shape, other, strict=True)
    )
