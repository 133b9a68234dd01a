"""What `auto_complete_config` returned, merged into a model's configuration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import Direct, DynamicBatching, Scheduling


def merge(config: ModelConfig, completed: Mapping[str, Any]) -> ModelConfig:
    """
    `config` with what a model may change: batch size, inputs, outputs, dynamic batching, the decoupled policy.

    A completion that makes no sense (an unknown data type, say) is dropped as a whole, as in Triton.
    """
    try:
        return replace(
            config,
            max_batch_size=int(completed.get("max_batch_size", config.max_batch_size)),
            inputs=_tensors(config.inputs, completed.get("input", ())),
            outputs=_tensors(config.outputs, completed.get("output", ())),
            scheduling=_scheduling(config.scheduling, completed.get("dynamic_batching")),
            decoupled=bool(completed.get("model_transaction_policy", {}).get("decoupled", config.decoupled)),
        )
    except (ValueError, TypeError, AttributeError, KeyError):
        return config


def _tensors(configured: tuple[TensorSpec, ...], completed: Any) -> tuple[TensorSpec, ...]:
    known = {spec.name: spec for spec in configured}
    specs = []
    for entry in completed:
        name = str(entry["name"])
        datatype = DataType.from_config(entry["data_type"])
        if datatype is DataType.INVALID:
            raise ValueError(f"unknown data type {entry['data_type']}")
        spec = known.get(name) or TensorSpec(name, datatype, ())
        specs.append(
            replace(
                spec,
                datatype=datatype,
                dims=tuple(int(dim) for dim in entry["dims"]),
                optional=bool(entry.get("optional", spec.optional)),
            )
        )
    return tuple(specs)


def _scheduling(configured: Scheduling, dynamic_batching: Any) -> Scheduling:
    if dynamic_batching is None or not isinstance(configured, Direct):
        return configured
    return DynamicBatching(
        preferred_batch_sizes=tuple(map(int, dynamic_batching.get("preferred_batch_size", ()))),
        max_queue_delay_us=int(dynamic_batching.get("max_queue_delay_microseconds", 0)),
    )
