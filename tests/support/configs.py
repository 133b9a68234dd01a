"""
Model configurations for everybody's tests.

    a_config()                                       # `simple`: INPUT0, INPUT1 → OUTPUT0, OUTPUT1, INT32 [16], batches
    a_config("counter", max_batch_size=0, inputs=(a_tensor("IN", DataType.BYTES, -1),), scheduling=DynamicBatching())
"""

from dataclasses import replace
from typing import Any

from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.protocols.model_config import complete


def a_tensor(name: str, datatype: DataType = DataType.INT32, *dims: int, **changes: Any) -> TensorSpec:
    """One configured tensor; dims `[16]` unless given."""
    return TensorSpec(name, datatype, dims or (16,), **changes)


def a_config(name: str = "simple", **changes: Any) -> ModelConfig:
    """
    A complete configuration, with its document, as the engine hands it to backends.

    `changes` are fields of ModelConfig; what they leave open is filled in as Triton does.
    """
    fields: dict[str, Any] = {
        "backend": "identity",
        "max_batch_size": 8,
        "inputs": (a_tensor("INPUT0"), a_tensor("INPUT1")),
        "outputs": (a_tensor("OUTPUT0"), a_tensor("OUTPUT1")),
        "instance_groups": (InstanceGroup(name, InstanceKind.CPU, 1),),
    } | changes
    return complete(replace(ModelConfig(name), **fields))
