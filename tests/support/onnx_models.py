"""Small ONNX models for tests, made by `onnx.helper`; each function gives the bytes of a model file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from charonia_runtime.core.datatypes import DataType

_OPSET = 18
_IR_VERSION = 10
ELEMENTS = {
    DataType.BOOL: TensorProto.BOOL,
    DataType.UINT8: TensorProto.UINT8,
    DataType.UINT16: TensorProto.UINT16,
    DataType.UINT32: TensorProto.UINT32,
    DataType.UINT64: TensorProto.UINT64,
    DataType.INT8: TensorProto.INT8,
    DataType.INT16: TensorProto.INT16,
    DataType.INT32: TensorProto.INT32,
    DataType.INT64: TensorProto.INT64,
    DataType.FP16: TensorProto.FLOAT16,
    DataType.FP32: TensorProto.FLOAT,
    DataType.FP64: TensorProto.DOUBLE,
    DataType.BYTES: TensorProto.STRING,
    DataType.BF16: TensorProto.BFLOAT16,
}

Dims = Sequence[int | str | None]


def a_value(name: str, dims: Dims, datatype: DataType = DataType.FP32) -> onnx.ValueInfoProto:
    """An input or output. A name in `dims` is a symbolic size."""
    return helper.make_tensor_value_info(name, ELEMENTS[datatype], dims)


def a_node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, **attributes)


def a_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    **initializers: np.ndarray[Any, Any],
) -> bytes:
    """A model file. An initialiser whose name is also an input may be overridden by a request."""
    constants = [numpy_helper.from_array(array, name) for name, array in initializers.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    return model.SerializeToString()


def identity(
    datatype: DataType = DataType.FP32, dims: Dims = ("n", "m"), *, inputs: str = "INPUT", outputs: str = "OUTPUT"
) -> bytes:
    """`INPUT` → `OUTPUT`, of any shape that fits `dims`."""
    return a_model([a_node("Identity", [inputs], [outputs])], [a_value(inputs, dims, datatype)],
                   [a_value(outputs, dims, datatype)])  # fmt: skip


def addition(dims: Dims = ("n", 4)) -> bytes:
    """`SUM` = `A` + `B`, `DIFFERENCE` = `A` - `B`, FP32."""
    return a_model(
        [a_node("Add", ["A", "B"], ["SUM"]), a_node("Sub", ["A", "B"], ["DIFFERENCE"])],
        [a_value("A", dims), a_value("B", dims)],
        [a_value("SUM", dims), a_value("DIFFERENCE", dims)],
    )


def scaling() -> bytes:
    """`OUTPUT` = `INPUT` * `FACTOR`, not batched; `FACTOR` is optional and 2 where a request leaves it out."""
    return a_model(
        [a_node("Mul", ["INPUT", "FACTOR"], ["OUTPUT"])],
        [a_value("INPUT", [-1]), a_value("FACTOR", [1])],
        [a_value("OUTPUT", [-1])],
        FACTOR=np.array([2], np.float32),
    )


def with_external_data(folder: Path, weights: np.ndarray[Any, Any]) -> None:
    """Write `model.onnx` and `weights.bin` beside it: `OUTPUT` = `INPUT` @ weights."""
    model = onnx.load_from_string(
        a_model(
            [a_node("MatMul", ["INPUT", "WEIGHTS"], ["OUTPUT"])],
            [a_value("INPUT", ["n", weights.shape[0]])],
            [a_value("OUTPUT", ["n", weights.shape[1]])],
            WEIGHTS=weights,
        )
    )
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
