"""The contract's models for the `onnxruntime` backend."""

from pathlib import Path

import numpy as np

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor
from tests.support.onnx_models import a_model, a_node, a_value

LIBRARY = "onnxruntime"
DATATYPES = tuple(datatype for datatype in DataType if datatype is not DataType.INVALID)


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    dims = ["n", "m"] if max_batch_size else ["m"]
    names = (("INPUT0", "OUTPUT0"), ("INPUT1", "OUTPUT1"))
    _write(
        directory,
        a_model(
            [a_node("Identity", [source], [output]) for source, output in names],
            [a_value(source, dims, datatype) for source, _ in names],
            [a_value(output, dims, datatype) for _, output in names],
        ),
    )
    return a_config(
        max_batch_size=max_batch_size,
        inputs=tuple(a_tensor(source, datatype, -1) for source, _ in names),
        outputs=tuple(a_tensor(output, datatype, -1) for _, output in names),
    )


def optional(directory: Path) -> ModelConfig:
    nodes = [a_node("Identity", ["INPUT0"], ["OUTPUT0"]), a_node("Identity", ["INPUT1"], ["OUTPUT1"])]
    inputs = [a_value("INPUT0", ["m"]), a_value("INPUT1", [1])]
    outputs = [a_value("OUTPUT0", ["m"]), a_value("OUTPUT1", [1])]
    _write(directory, a_model(nodes, inputs, outputs, INPUT1=np.zeros(1, np.float32)))
    return a_config(
        max_batch_size=0,
        inputs=(a_tensor("INPUT0", DataType.FP32, -1), a_tensor("INPUT1", DataType.FP32, 1, optional=True)),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, -1),),
    )


def failing(directory: Path) -> ModelConfig | None:
    nodes = [a_node("Reshape", ["INPUT0", "SHAPE"], ["OUTPUT0"])]
    inputs, outputs = [a_value("INPUT0", ["n", "m"])], [a_value("OUTPUT0", ["n", 7])]
    _write(directory, a_model(nodes, inputs, outputs, SHAPE=np.array([-1, 7])))
    return a_config(inputs=(a_tensor("INPUT0", DataType.FP32, -1),), outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),))


def _write(directory: Path, model: bytes) -> None:
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "model.onnx").write_bytes(model)
