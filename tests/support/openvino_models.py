"""
OpenVINO models, and models loaded by the openvino backend without the engine.

This module imports openvino: tests import it after `pytest.importorskip("openvino")`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as operations

from charonia_runtime.backends.openvino.library import ELEMENT_NAMES
from charonia_runtime.core.datatypes import DataType
from tests.support import loaded_models


def parameter(name: str, shape: Sequence[int], datatype: DataType = DataType.FP32) -> Any:
    node = operations.parameter(list(shape), getattr(openvino.Type, ELEMENT_NAMES[datatype]))
    node.output(0).tensor.set_names({name})
    return node


def model(inputs: Sequence[Any], **outputs: Any) -> Any:
    """A model whose outputs are the nodes given by name."""
    results = []
    for name, node in outputs.items():
        result = operations.result(node)
        result.output(0).tensor.set_names({name})
        results.append(result)
    return openvino.Model(results, list(inputs), "m")


def identity(datatype: DataType, rank: int = 2) -> Any:
    """INPUT0, INPUT1 → OUTPUT0, OUTPUT1."""
    inputs = [parameter(f"INPUT{index}", [-1] * rank, datatype) for index in range(2)]
    # Something must stand between a parameter and a result that have different names.
    passed = [operations.concat([node], 0) for node in inputs]
    return model(inputs, OUTPUT0=passed[0], OUTPUT1=passed[1])


def sevens() -> Any:
    """Gives rows of seven, so that most inputs do not fit."""
    source = parameter("INPUT0", [-1, -1])
    shaped = operations.reshape(source, operations.constant(np.array([-1, 7])), special_zero=False)
    return model([source], OUTPUT0=shaped)


def difference(shape: Sequence[int], layout: str = "") -> Any:
    """LEFT - RIGHT."""
    left, right = parameter("LEFT", shape), parameter("RIGHT", shape)
    made = model([left, right], DIFFERENCE=operations.subtract(left, right))
    if layout:
        for port in (*made.inputs, *made.outputs):
            openvino.layout_helpers.set_layout(port, openvino.Layout(layout))
    return made


def save(made: Any, directory: Path) -> Path:
    """Write the model as version 1 of a model's folder."""
    (directory / "1").mkdir(parents=True, exist_ok=True)
    openvino.save_model(made, str(directory / "1" / "model.xml"), compress_to_fp16=False)
    return directory


def save_without_names(made: Any, directory: Path) -> Path:
    """Write the model with ports that have no names, as `openvino.convert_model` makes outputs of torch models."""
    save(made, directory)
    path = directory / "1" / "model.xml"
    path.write_text(re.sub(r' (output_)?names="[^"]*"', "", path.read_text()))
    return directory


class Loaded(loaded_models.Loaded):
    backend_name = "openvino"
