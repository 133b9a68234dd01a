"""Auto-complete: what a graph tells and the configuration leaves open."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from charonia_runtime.backends.onnxruntime.graph import Graph, GraphTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Direct, DynamicBatching, SequenceBatching

_logger = logging.getLogger(__name__)


def is_complete(config: ModelConfig) -> bool:
    """Whether nothing is to be filled in: inputs (or batch inputs) and outputs are configured."""
    return bool((config.inputs or config.batch_inputs) and config.outputs)


def complete_from_graph(config: ModelConfig, graph: Graph, default_max_batch_size: int) -> ModelConfig:
    """
    Fill in max_batch_size, the scheduling choice and the lists of inputs and outputs that are empty.

    Raises InvalidArgumentError when the configuration wants to batch and the graph cannot.
    """
    config = _complete_batching(config, graph, default_max_batch_size)
    kept = _kept_by_server(config)
    if not config.inputs and not config.batch_inputs:
        config = replace(config, inputs=_specs(graph.inputs.values(), config.batches, kept))
    if not config.outputs:
        config = replace(config, outputs=_specs(graph.outputs.values(), config.batches, kept))
    return config


def _kept_by_server(config: ModelConfig) -> frozenset[str]:
    """The controls and states of sequences: the model's inputs and outputs, but not its clients'."""
    if not isinstance(config.scheduling, SequenceBatching):
        return frozenset()
    controls = {control.name for control in config.scheduling.controls}
    return frozenset(controls.union(*((state.input_name, state.output_name) for state in config.states)))


def _complete_batching(config: ModelConfig, graph: Graph, default_max_batch_size: int) -> ModelConfig:
    if not graph.batches:
        if config.batches:
            raise InvalidArgumentError(
                f"autofill failed for model '{config.name}': model does not support batching while non-zero "
                "max_batch_size is specified"
            )
        return config
    if not config.batches:
        config = replace(config, max_batch_size=max(default_max_batch_size, 0))
        _logger.warning(
            "autofilled max_batch_size to %d for model '%s' since batching is supporrted but no max_batch_size is "
            "specified in model configuration. Must specify max_batch_size to utilize autofill with a larger max "
            "batch size",
            config.max_batch_size,
            config.name,
        )
    if config.max_batch_size > 1 and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    return config


def _specs(tensors: Iterable[GraphTensor], batches: bool, without: Collection[str]) -> tuple[TensorSpec, ...]:
    return tuple(
        _spec(tensor, tensor.shape[1:] if batches else tensor.shape, batches)
        for tensor in tensors
        if tensor.name not in without
    )


def _spec(tensor: GraphTensor, dims: tuple[int, ...], batches: bool) -> TensorSpec:
    if dims:
        return TensorSpec(tensor.name, tensor.datatype, dims)
    return TensorSpec(tensor.name, tensor.datatype, (1,), reshape=() if batches else None)
