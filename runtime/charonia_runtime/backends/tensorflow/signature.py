"""What a model takes and gives, in our types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from charonia_runtime.backends.tensorflow.library import DATATYPES
from charonia_runtime.core.datatypes import DataType


@dataclass(frozen=True, slots=True)
class SignatureTensor:
    """
    One input or output: its name to clients, and to the graph (`<operation>:<index>`).

    `shape` is None where not even the rank is known; `datatype` is INVALID where we have none for it.
    """

    name: str
    graph_name: str
    datatype: DataType
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Signature:
    """
    All inputs and outputs by name.

    An `open` one is that of a bare graph: nobody has said which of its many nodes are meant, nor what they hold.
    """

    inputs: Mapping[str, SignatureTensor]
    outputs: Mapping[str, SignatureTensor]
    open: bool = False

    @property
    def batches(self) -> bool:
        """Whether the first dimension of every tensor that has one may be of any size."""
        tensors = (*self.inputs.values(), *self.outputs.values())
        return all(tensor.shape[0] == -1 for tensor in tensors if tensor.shape)


def of_signature_def(definition: Any) -> Signature:
    """Out of a SavedModel's `SignatureDef`; names are its keys."""
    return Signature(
        {name: _described(name, entry) for name, entry in sorted(definition.inputs.items())},
        {name: _described(name, entry) for name, entry in sorted(definition.outputs.items())},
    )


def of_graph_def(graph: Any) -> Signature:
    """Out of a `GraphDef`: every placeholder is an input, the first output of every other node is one."""
    nodes = {node.name: node for node in graph.node}
    placeholders = {name for name, node in nodes.items() if node.op == "Placeholder"}
    tensors = {name: SignatureTensor(name, f"{name}:0", DataType.INVALID, None) for name in nodes}
    return Signature(
        {name: tensor for name, tensor in tensors.items() if name in placeholders},
        {name: tensor for name, tensor in tensors.items() if name not in placeholders},
        open=True,
    )


def _described(name: str, entry: Any) -> SignatureTensor:
    shape = entry.tensor_shape
    sizes = None if shape.unknown_rank else tuple(int(dim.size) for dim in shape.dim)
    return SignatureTensor(name, entry.name, DATATYPES.get(entry.dtype, DataType.INVALID), sizes)
