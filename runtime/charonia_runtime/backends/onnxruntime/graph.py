"""Inputs and outputs of an ONNX graph, as a session reports them, in our types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import UnsupportedError

_DATATYPES = {
    "bool": DataType.BOOL, "uint8": DataType.UINT8, "uint16": DataType.UINT16, "uint32": DataType.UINT32,
    "uint64": DataType.UINT64, "int8": DataType.INT8, "int16": DataType.INT16, "int32": DataType.INT32,
    "int64": DataType.INT64, "float16": DataType.FP16, "float": DataType.FP32, "double": DataType.FP64,
    "string": DataType.BYTES, "bfloat16": DataType.BF16,
}  # fmt: skip
_KINDS = {
    "seq": "ONNX_TYPE_SEQUENCE", "map": "ONNX_TYPE_MAP", "opaque": "ONNX_TYPE_OPAQUE",
    "sparse_tensor": "ONNX_TYPE_SPARSETENSOR",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """
    One input or output. -1 in `shape` is a dynamic or symbolic size; a scalar and a tensor of unknown rank have none.

    `element` is ONNX's name of the type (`FLOAT16`); `datatype` is INVALID where Triton has no such type.
    """

    name: str
    element: str
    datatype: DataType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """What a model takes and gives, by name. `initializers` are inputs that have a default, thus optional."""

    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]
    initializers: Mapping[str, GraphTensor]

    @property
    def batches(self) -> bool:
        """Whether every input and output has a dynamic first dimension."""
        return all(tensor.shape[:1] == (-1,) for tensor in (*self.inputs.values(), *self.outputs.values()))


def read_graph(session: Any) -> Graph:
    """Raises UnsupportedError for inputs and outputs that are not tensors."""
    return Graph(
        _read_tensors(session.get_inputs()),
        _read_tensors(session.get_outputs()),
        _read_tensors(session.get_overridable_initializers()),
    )


def _read_tensors(nodes: Iterable[Any]) -> dict[str, GraphTensor]:
    return {node.name: _read_tensor(node.name, node.type, node.shape) for node in nodes}


def _read_tensor(name: str, type_name: str, shape: Iterable[object]) -> GraphTensor:
    kind, _, rest = type_name.partition("(")
    if kind != "tensor":
        raise UnsupportedError(
            f"Unsupported ONNX Type '{_KINDS.get(kind, 'ONNX_TYPE_UNKNOWN')}' for I/O '{name}', "
            "expected 'ONNX_TYPE_TENSOR'."
        )
    element = rest.rstrip(")")
    return GraphTensor(
        name,
        element.upper(),
        _DATATYPES.get(element, DataType.INVALID),
        tuple(size if isinstance(size, int) and size >= 0 else -1 for size in shape),
    )
