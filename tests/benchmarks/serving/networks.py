"""The ONNX models that the benchmark serves: random weights, made here, nothing to download."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""ResNet-50: width of the middle convolution and number of blocks, for each stage."""
_OPSET = 17
_IR_VERSION = 8


class _Graph:
    """Nodes and weights, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int, fan_in: int) -> str:
        name = f"W{len(self.weights)}"
        values = self._random.normal(0, (2 / fan_in) ** 0.5, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def convolution(self, source: str, channels: tuple[int, int], size: int, stride: int = 1) -> str:
        entering, leaving = channels
        weight = self.weight(leaving, entering, size, size, fan_in=entering * size * size)
        return self.node("Conv", source, weight, strides=[stride] * 2, pads=[size // 2] * 4, kernel_shape=[size] * 2)

    def dense(self, source: str, entering: int, leaving: int, output: str = "") -> str:
        return self.node("MatMul", source, self.weight(entering, leaving, fan_in=entering), output=output)

    def block(self, source: str, entering: int, middle: int, stride: int) -> str:
        """A bottleneck with its shortcut."""
        leaving = 4 * middle
        inner = self.node("Relu", self.convolution(source, (entering, middle), 1))
        inner = self.node("Relu", self.convolution(inner, (middle, middle), 3, stride))
        inner = self.convolution(inner, (middle, leaving), 1)
        shortcut = source if entering == leaving else self.convolution(source, (entering, leaving), 1, stride)
        return self.node("Relu", self.node("Add", inner, shortcut))

    def write(self, path: Path, shape: tuple[int, ...], output_shape: tuple[int, ...]) -> None:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("INPUT0", TensorProto.FLOAT, ["n", *shape])],
            [helper.make_tensor_value_info("OUTPUT0", TensorProto.FLOAT, ["n", *output_shape])],
            self.weights,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION), path)


def write_mlp(path: Path) -> None:
    """128 → 64 → 10."""
    graph = _Graph()
    graph.dense(graph.node("Relu", graph.dense("INPUT0", 128, 64)), 64, 10, output="OUTPUT0")
    graph.write(path, (128,), (10,))


def write_resnet50(path: Path) -> None:
    """ResNet-50's shape of work: its convolutions without their normalisation, which inference folds into them."""
    graph = _Graph()
    last = graph.node("Relu", graph.convolution("INPUT0", (3, 64), 7, 2))
    last = graph.node("MaxPool", last, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    entering = 64
    for stage, (middle, blocks) in enumerate(_STAGES):
        for index in range(blocks):
            last = graph.block(last, entering, middle, 2 if stage and index == 0 else 1)
            entering = 4 * middle
    flat = graph.node("Flatten", graph.node("GlobalAveragePool", last))
    graph.dense(flat, entering, 1000, output="OUTPUT0")
    graph.write(path, (3, 224, 224), (1000,))


def write_all(folder: Path) -> None:
    """Every model that is not there yet, as `<folder>/<name>.onnx`."""
    for name, write in (("mlp", write_mlp), ("resnet50", write_resnet50)):
        path = folder / f"{name}.onnx"
        if not path.exists():
            write(path)
