"""Load-time checks of a configuration against a model's signature, with Triton's texts."""

from collections.abc import Mapping

from charonia_runtime.backends.tensorflow.models import DEFAULT_NAMES
from charonia_runtime.backends.tensorflow.signature import Signature, SignatureTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.scheduling import SequenceBatching, SequenceControl
from charonia_runtime.core.shapes import full_backend_shape, listed, unfit_for_batching, wrong_shape
from charonia_runtime.core.tensor import shape_text


def check_configuration(config: ModelConfig) -> None:
    """Raises InvalidArgumentError for what no TensorFlow model can be configured with."""
    if config.platform not in DEFAULT_NAMES:
        raise InvalidArgumentError(f"platform {config.platform} not supported for TensorFlow model '{config.name}'")
    if config.optimization.cpu_accelerators:
        raise InvalidArgumentError("CPU Execution Accelerator is not supported in TensorFlow backend")
    if config.states:
        raise InvalidArgumentError(f"model '{config.name}': the tensorflow backend keeps no sequence_batching.state")


def check_signature(config: ModelConfig, signature: Signature) -> None:
    """Raises InvalidArgumentError or InternalError for the first disagreement."""
    controls = config.scheduling.controls if isinstance(config.scheduling, SequenceBatching) else ()
    made = sum(len(batch_input.target_names) for batch_input in config.batch_inputs)
    # A tensor that tells several things is listed once for each.
    expected = len(config.inputs) + made + len({control.name for control in controls})
    provided = len(signature.inputs)
    if expected > provided or (expected != provided and not signature.open):
        at_most = "at most " if signature.open else ""
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {expected} inputs, model provides "
            f"{at_most}{provided}"
        )
    for control in controls:
        _check_control(config, control, signature)
    for spec in config.inputs:
        _check(config, spec, signature.inputs, "input", is_open=signature.open)
    scattered = {name for output in config.batch_outputs for name in output.target_names}
    for spec in config.outputs:
        shapeless = signature.open or spec.name in scattered
        _check(config, spec, signature.outputs, "output", is_open=signature.open, any_shape=shapeless)


def _check(
    config: ModelConfig,
    spec: TensorSpec,
    tensors: Mapping[str, SignatureTensor],
    role: str,
    *,
    is_open: bool,
    any_shape: bool = False,
) -> None:
    if spec.name not in tensors:
        raise InvalidArgumentError(f"unexpected inference {role} '{spec.name}', allowed {role}s are: {listed(tensors)}")
    if spec.datatype in {DataType.BF16, DataType.INVALID}:
        raise InternalError(
            f"unsupported datatype '{spec.datatype.config_name}' for tensor '{spec.name}' for model '{config.name}'"
        )
    if is_open:
        return
    tensor = tensors[spec.name]
    if spec.datatype is not tensor.datatype:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects datatype {spec.datatype.config_name} for "
            f"{role} '{spec.name}', model provides TYPE_{tensor.datatype.wire_name}"
        )
    if tensor.shape and not any_shape and not spec.allow_ragged:
        _check_shape(config, spec, tensor.shape, exact=role == "output")


def _check_shape(config: ModelConfig, spec: TensorSpec, shape: tuple[int, ...], *, exact: bool) -> None:
    if config.batches and shape[0] != -1:
        raise unfit_for_batching(
            config, spec, f" and the first dimension must be -1; but shape expected by the model is {shape_text(shape)}"
        )
    full = full_backend_shape(config, spec)
    if len(full) != len(shape) or not all(
        model == configured or (model == -1 and not exact) for model, configured in zip(shape, full, strict=True)
    ):
        raise wrong_shape(config, spec, shape)


def _check_control(config: ModelConfig, control: SequenceControl, signature: Signature) -> None:
    tensor = signature.inputs.get(control.name)
    if tensor is None:
        raise InternalError(
            f"configuration specified sequence control '{control.name}', but model does not provide that input"
        )
    if signature.open:
        return
    subject = f"unable to load model '{config.name}', sequence control '{control.name}'"
    dims = None if tensor.shape is None else tensor.shape[1:] if config.batches else tensor.shape
    if dims not in {None, (1,)}:
        raise InvalidArgumentError(f"{subject} in model has dims {shape_text(dims or ())} but dims [1] is expected")
    if tensor.datatype is not control.datatype:
        raise InvalidArgumentError(
            f"{subject}, the model expects data-type TYPE_{tensor.datatype.wire_name} but the model configuration "
            f"specifies data-type {control.datatype.config_name}"
        )
