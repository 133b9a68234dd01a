"""
Auto-complete: what an archive of torch.export tells and the configuration leaves open. Triton leaves all of it.

TorchScript modules know no shapes, and packages of AOTInductor do not tell theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from charonia_runtime.backends.pytorch.exported import is_compiled
from charonia_runtime.backends.pytorch.library import datatypes, loading
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import Direct, DynamicBatching


@dataclass(frozen=True, slots=True)
class ArchivedTensor:
    """One input or output by its position; -1 stands for a dimension that was exported as free."""

    datatype: DataType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    inputs: tuple[ArchivedTensor, ...]
    outputs: tuple[ArchivedTensor, ...]

    @property
    def batches(self) -> bool:
        """Whether the first dimension of every tensor is free."""
        return all(tensor.shape[:1] == (-1,) for tensor in (*self.inputs, *self.outputs))


def read_archive(torch: Any, path: Path, model: str) -> Archive | None:
    """What the file says of itself; None where it does not tell. Raises InternalError when it cannot be read."""
    with loading(model):
        if is_compiled(path):
            return None
        from torch import export

        program = export.load(str(path))
        nodes = {node.name: node for node in program.graph.nodes}
        known = datatypes(torch)
        return Archive(
            _tensors(nodes, program.graph_signature.user_inputs, known),
            _tensors(nodes, program.graph_signature.user_outputs, known),
        )


def complete_from_archive(config: ModelConfig, archive: Archive, default_max_batch_size: int) -> ModelConfig:
    """Fill in max_batch_size, the scheduling choice and the lists of inputs and outputs that are empty."""
    if archive.batches and not config.batches:
        config = replace(config, max_batch_size=max(default_max_batch_size, 0))
    if archive.batches and config.max_batch_size > 1 and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    if not config.inputs:
        config = replace(config, inputs=_specs("INPUT", archive.inputs, config.batches))
    if not config.outputs:
        config = replace(config, outputs=_specs("OUTPUT", archive.outputs, config.batches))
    return config


def _specs(role: str, tensors: Sequence[ArchivedTensor], batches: bool) -> tuple[TensorSpec, ...]:
    specs: list[TensorSpec] = []
    for position, tensor in enumerate(tensors):
        dims = tensor.shape[1:] if batches else tensor.shape
        reshape = None if dims else ()
        specs.append(TensorSpec(f"{role}__{position}", tensor.datatype, dims or (1,), reshape=reshape))
    return tuple(specs)


def _tensors(
    nodes: Mapping[str, Any], names: Sequence[str], known: Mapping[Any, DataType]
) -> tuple[ArchivedTensor, ...]:
    values = [nodes[name].meta["val"] for name in names]
    return tuple(
        ArchivedTensor(
            known.get(value.dtype, DataType.INVALID),
            tuple(size if isinstance(size, int) else -1 for size in value.shape),
        )
        for value in values
    )
