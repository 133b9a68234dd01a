"""
Residual networks for pictures, ResNet-18 and ResNet-50, with seeded weights: the same network in every framework's form.

This module imports torch: tests import it after `pytest.importorskip("torch")`. Other frameworks are imported by the
function that writes their form.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.support.torch_models import quietly, save_script

_BLOCKS: Mapping[int, tuple[int, ...]] = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
CLASSES = 1000


class _Unit(nn.Module):
    """Convolution and normalisation."""

    def __init__(self, channels: int, made: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, made, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(made)

    def forward(self, pictures):
        return self.norm(self.convolution(pictures))


class _Block(nn.Module):
    """Two units, or three with a bottleneck, around a shortcut."""

    def __init__(self, channels: int, width: int, made: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        units = (
            [_Unit(channels, width, 1), nn.ReLU(), _Unit(width, width, 3, stride), nn.ReLU(), _Unit(width, made, 1)]
            if bottleneck
            else [_Unit(channels, width, 3, stride), nn.ReLU(), _Unit(width, made, 3)]
        )
        self.way = nn.Sequential(*units)
        changes = stride != 1 or channels != made
        self.shortcut = _Unit(channels, made, 1, stride) if changes else nn.Identity()

    def forward(self, pictures):
        return torch.relu(self.way(pictures) + self.shortcut(pictures))


class ResNet(nn.Module):
    """Pictures [n, 3, height, width] → scores of 1000 classes."""

    def __init__(self, depth: int = 18) -> None:
        super().__init__()
        torch.manual_seed(depth)
        bottleneck, channels = depth >= 50, 64
        blocks = []
        for stage, count in enumerate(_BLOCKS[depth]):
            width = 64 << stage
            made = width * 4 if bottleneck else width
            for index in range(count):
                blocks.append(_Block(channels, width, made, 2 if stage and not index else 1, bottleneck))
                channels = made
        self.stem = _Unit(3, 64, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(*blocks)
        self.classes = nn.Linear(channels, CLASSES)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.0)
                nn.init.uniform_(module.running_mean, -0.1, 0.1)
                nn.init.uniform_(module.running_var, 0.8, 1.2)
        self.eval()

    def forward(self, pictures):
        return self.classes(self.blocks(self.pool(torch.relu(self.stem(pictures)))).mean((2, 3)))


def pictures(count: int, size: int = 64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).random((count, 3, size, size), np.float32)


def write_torchscript(network: ResNet, version: Path) -> None:
    save_script(network, version / "model.pt")


def write_onnx(network: ResNet, version: Path) -> None:
    version.mkdir(parents=True)
    with quietly():
        torch.onnx.export(
            network, (torch.from_numpy(pictures(2)),), str(version / "model.onnx"), dynamo=False,
            input_names=["PICTURES"], output_names=["CLASSES"],
            dynamic_axes={"PICTURES": {0: "n"}, "CLASSES": {0: "n"}},
        )  # fmt: skip


def write_openvino(network: ResNet, version: Path) -> None:
    import openvino

    with quietly():
        model = openvino.convert_model(network, example_input=torch.from_numpy(pictures(2)), input=[-1, 3, 64, 64])
    for port, name in ((model.inputs[0], "PICTURES"), (model.outputs[0], "CLASSES")):
        port.tensor.set_names({name})
        openvino.layout_helpers.set_layout(port, openvino.Layout("N..."))
    openvino.save_model(model, str(version / "model.xml"), compress_to_fp16=False)


def write_saved_model(network: ResNet, version: Path) -> None:
    from tests.support.tensorflow_models import a_signature, a_spec, save, tensorflow

    weights = tensorflow.Module()
    forward = _InTensorFlow(tensorflow, network, weights)
    spec = a_spec("PICTURES", [None, 3, 64, 64])
    save(version.parent, weights, serving_default=a_signature(lambda given: {"CLASSES": forward(given)}, spec))


class _InTensorFlow:
    """The same network by TensorFlow's own operations, which on processors want channels last."""

    def __init__(self, tensorflow: Any, network: ResNet, owner: Any) -> None:
        """`owner` is the `tensorflow.Module` that keeps the weights."""
        self._tensorflow = tensorflow
        self._variables: list[Any] = []
        self._stem = self._unit(network.stem)
        self._blocks = [self._block(block) for block in network.blocks]
        self._weight = self._kept(network.classes.weight.T)
        self._bias = self._kept(network.classes.bias)
        owner.kept = self._variables

    def __call__(self, pictures: Any) -> Any:
        tensorflow = self._tensorflow
        made = tensorflow.nn.relu(self._stem(tensorflow.transpose(pictures, [0, 2, 3, 1])))
        made = tensorflow.nn.max_pool2d(self._bordered(made, 1), 3, 2, "VALID")  # nothing in it is below 0
        for block in self._blocks:
            made = block(made)
        return tensorflow.matmul(tensorflow.reduce_mean(made, [1, 2]), self._weight) + self._bias

    def _unit(self, unit: _Unit) -> Callable[[Any], Any]:
        (size, _), (stride, _) = unit.convolution.kernel_size, unit.convolution.stride
        kernel = self._kept(unit.convolution.weight.permute(2, 3, 1, 0))
        norm = unit.norm
        statistics = [self._kept(part) for part in (norm.running_mean, norm.running_var, norm.bias, norm.weight)]
        nn = self._tensorflow.nn
        return lambda given: nn.batch_normalization(
            nn.conv2d(self._bordered(given, size // 2), kernel, stride, "VALID"), *statistics, norm.eps
        )

    def _block(self, block: _Block) -> Callable[[Any], Any]:
        relu = self._tensorflow.nn.relu
        way = [self._unit(part) if isinstance(part, _Unit) else relu for part in block.way]
        shortcut = self._unit(block.shortcut) if isinstance(block.shortcut, _Unit) else (lambda given: given)

        def run(given: Any) -> Any:
            made = given
            for step in way:
                made = step(made)
            return relu(made + shortcut(given))

        return run

    def _bordered(self, given: Any, width: int) -> Any:
        return self._tensorflow.pad(given, [[0, 0], [width] * 2, [width] * 2, [0, 0]])

    def _kept(self, tensor: torch.Tensor) -> Any:
        self._variables.append(self._tensorflow.Variable(tensor.detach().contiguous().numpy(), trainable=False))
        return self._variables[-1]
