"""Auto-complete: what a signature tells and the configuration leaves open. Texts are Triton's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from charonia_runtime.backends.tensorflow.signature import Signature, SignatureTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Direct, DynamicBatching, SequenceBatching


def complete_from_signature(config: ModelConfig, signature: Signature, default_max_batch_size: int) -> ModelConfig:
    """
    Fill in max_batch_size, the scheduling choice, and the inputs and outputs that are missing or incomplete.

    Outputs may be left out of a configuration: only those that are in it are completed, all where there is none.
    Raises InvalidArgumentError for a configuration that contradicts the model or itself about batching.
    """
    batches = _batches(config, signature)
    if batches and not config.batches:
        config = replace(config, max_batch_size=max(default_max_batch_size, 0))
    if batches and config.max_batch_size > 1 and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    inputs = {spec.name: spec for spec in config.inputs}
    for name in signature.inputs.keys() - inputs.keys() - _made_by_server(config):
        inputs[name] = TensorSpec(name, DataType.INVALID, ())
    outputs = {spec.name: spec for spec in config.outputs} or {
        name: TensorSpec(name, DataType.INVALID, ()) for name in signature.outputs
    }
    return replace(
        config,
        inputs=_completed(config, _ordered(inputs, signature.inputs), signature.inputs),
        outputs=_completed(config, outputs, signature.outputs),
    )


def _batches(config: ModelConfig, signature: Signature) -> bool:
    hints = set(_hints(config, signature))
    if len(hints) > 1 or (True in hints and not signature.batches):
        raise InvalidArgumentError(
            f"unable to autofill for '{config.name}', model tensor configurations are contradicting each other in "
            "terms of whether batching is supported"
        )
    if config.batches and not signature.batches:
        raise InvalidArgumentError(
            f"unable to autofill for '{config.name}', configuration specified max-batch {config.max_batch_size} but "
            "model signature does not support batching"
        )
    return signature.batches and False not in hints


def _hints(config: ModelConfig, signature: Signature) -> Iterator[bool]:
    """Whether each tensor's configured dims leave out the model's first dimension."""
    for specs, tensors in ((config.inputs, signature.inputs), (config.outputs, signature.outputs)):
        for spec in specs:
            tensor = tensors.get(spec.name)
            if tensor is None or not tensor.shape or not spec.backend_dims:
                continue
            if len(spec.backend_dims) in {len(tensor.shape) - 1, len(tensor.shape)}:
                yield len(spec.backend_dims) == len(tensor.shape) - 1


def _made_by_server(config: ModelConfig) -> frozenset[str]:
    made = [name for batch_input in config.batch_inputs for name in batch_input.target_names]
    if isinstance(config.scheduling, SequenceBatching):
        made += [control.name for control in config.scheduling.controls]
    return frozenset(made)


def _ordered(specs: Mapping[str, TensorSpec], tensors: Mapping[str, SignatureTensor]) -> dict[str, TensorSpec]:
    """Those that were configured first, as they were, then the others in the signature's order."""
    configured = [name for name, spec in specs.items() if spec.dims or spec.datatype is not DataType.INVALID]
    return {name: specs[name] for name in (*configured, *(name for name in tensors if name in specs))}


def _completed(
    config: ModelConfig, specs: Mapping[str, TensorSpec], tensors: Mapping[str, SignatureTensor]
) -> tuple[TensorSpec, ...]:
    return tuple(
        _complete(config, spec, tensors[spec.name]) if spec.name in tensors else spec for spec in specs.values()
    )


def _complete(config: ModelConfig, spec: TensorSpec, tensor: SignatureTensor) -> TensorSpec:
    if spec.datatype is DataType.INVALID:
        spec = replace(spec, datatype=tensor.datatype)
    if spec.dims:
        return spec
    if not tensor.shape:
        raise InvalidArgumentError(
            f"Unable to autofill for '{config.name}': the rank of model tensor '{spec.name}' is 0 and dimensions are "
            "not defined"
        )
    dims = tensor.shape[1:] if config.batches else tensor.shape
    return replace(spec, dims=dims or (1,), reshape=spec.reshape if dims else ())
