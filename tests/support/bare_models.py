"""A small model for every backend that can tell its configuration, written without one."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from charonia_runtime.core.datatypes import DataType
from tests.support.backend_cases import scale
from tests.support.onnx_models import a_model, a_node, a_value

_PYTHON = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [3]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [3]})
        config.set_max_batch_size(8)
        return config

    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor)]) for tensor in tensors]
"""


def write_onnx(directory: Path) -> None:
    model = a_model([a_node("Identity", ["IN"], ["OUT"])], [a_value("IN", ["n", 3])], [a_value("OUT", ["n", 3])])
    _write(directory, "model.onnx", model)


def write_python(directory: Path) -> None:
    _write(directory, "model.py", _PYTHON.encode())


def write_scale(directory: Path) -> None:
    _write(directory, "model.scale", b'{"factor": [1, 2, 3]}')


def write_torch(directory: Path) -> None:
    import torch

    from tests.support.torch_models import Difference, export

    rows = torch.ones(2, 3)
    export(Difference(), rows, rows.clone(), path=directory / "1" / "model.pt2")


def write_openvino(directory: Path) -> None:
    from tests.support.openvino_models import difference, save

    save(difference([-1, 3], "NC"), directory)


def write_tensorflow(directory: Path) -> None:
    from tests.support.tensorflow_models import save_difference

    save_difference(directory, [None, 3])


def write_fil(directory: Path) -> None:
    import treelite
    from sklearn.ensemble import RandomForestClassifier

    rows = np.random.default_rng(0).random((50, 3))
    (directory / "1").mkdir(parents=True)
    trees = RandomForestClassifier(3, max_depth=2, random_state=0).fit(rows, rows[:, 0] > rows[:, 1])
    treelite.sklearn.import_model(trees).serialize(directory / "1" / "checkpoint.tl")


def write_dali(directory: Path) -> None:
    from tests.support.dali_models import dali, save, source

    def build() -> object:
        return source("IN", DataType.FP32, 1) * np.float32(2)

    save(directory, build, output_dtype=dali.types.FLOAT, output_ndim=1)


WRITERS: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "onnxruntime": ("onnx", write_onnx),
    "python": ("python", write_python),
    "scale": ("own.scale", write_scale),
    "pytorch": ("torch", write_torch),
    "openvino": ("openvino", write_openvino),
    "tensorflow": ("tensorflow", write_tensorflow),
    "fil": ("trees", write_fil),
    "dali": ("dali", write_dali),
}
"""Backend → name of its model, and what writes the model's folder. Those of others tell their backend by the name."""
OWN_BACKENDS = scale.DIRECTORY


def _write(directory: Path, filename: str, content: bytes) -> None:
    (directory / "1").mkdir(parents=True)
    (directory / "1" / filename).write_bytes(content)
