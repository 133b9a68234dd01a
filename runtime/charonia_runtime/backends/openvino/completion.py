"""Auto-complete: what a model tells and the configuration leaves open."""

import logging
from dataclasses import replace

from charonia_runtime.backends.openvino.network import Network, NetworkTensor
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.scheduling import Direct, DynamicBatching

_logger = logging.getLogger(__name__)


def complete_from_network(config: ModelConfig, network: Network, default_max_batch_size: int) -> ModelConfig:
    """
    Fill in max_batch_size, the scheduling choice and the lists of inputs and outputs that are empty.

    A model batches when the layout of every input and output names a batch dimension.
    """
    batches = all(tensor.has_batch for tensor in (*network.inputs, *network.outputs))
    if config.batches and not batches:
        _logger.warning(
            "model '%s': max_batch_size is %d, but the model's layouts name no batch dimension",
            config.name,
            config.max_batch_size,
        )
    elif batches and not config.batches:
        config = replace(config, max_batch_size=max(default_max_batch_size, 0))
    if batches and config.max_batch_size > 1 and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    if not config.inputs:
        config = replace(config, inputs=tuple(_spec(tensor, config.batches) for tensor in network.inputs))
    if not config.outputs:
        config = replace(config, outputs=tuple(_spec(tensor, config.batches) for tensor in network.outputs))
    return config


def _spec(tensor: NetworkTensor, batches: bool) -> TensorSpec:
    """As in Triton, one dimension that is not fixed makes all of them free."""
    sizes = tensor.shape[1:] if batches else tensor.shape
    dims = tuple(-1 for _ in sizes) if -1 in tensor.shape else sizes
    return TensorSpec(tensor.name, tensor.datatype, dims or (1,), reshape=None if dims or not batches else ())
