"""The models that the tests serve: path in a repository → content."""

import io
import zipfile

import numpy as np

from tests.support.onnx_models import a_model, a_node, a_value

_SHOUTER = """
import numpy as np
import shouting
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", self._shouted(request))]) for request in requests
        ]

    def _shouted(self, request):
        words = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        return np.array([[shouting.shout(word.decode()).encode() for word in words[0]]], np.object_)
"""
_SHOUTER_CONFIG = """
backend: "python"
input { name: "INPUT" data_type: TYPE_STRING dims: [1, -1] }
output { name: "OUTPUT" data_type: TYPE_STRING dims: [1, -1] }
"""
PACKAGE = "shouting-1.0-py3-none-any.whl"


def multiplier(name: str, factor: float, version: int = 1) -> dict[str, bytes]:
    """An ONNX model: OUTPUT is INPUT times `factor`, FP32 [rows, -1]."""
    model = a_model(
        [a_node("Mul", ["INPUT", "FACTOR"], ["OUTPUT"])],
        [a_value("INPUT", ["rows", -1])],
        [a_value("OUTPUT", ["rows", -1])],
        FACTOR=np.array([factor], np.float32),
    )
    return {f"{name}/{version}/model.onnx": model}


def shouter(name: str) -> dict[str, bytes]:
    """A Python model that imports a package, which is beside it: OUTPUT is INPUT in capitals, BYTES [1, -1]."""
    return {
        f"{name}/config.pbtxt": _SHOUTER_CONFIG.encode(),
        f"{name}/1/model.py": _SHOUTER.encode(),
        f"{name}/{PACKAGE}": a_wheel("shouting", "def shout(word):\n    return word.upper()\n"),
    }


def a_wheel(name: str, source: str) -> bytes:
    """A package of one module, version 1.0, as pip installs it."""
    described = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": source,
        f"{described}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{described}/WHEEL": "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{described}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{described}/RECORD"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return packed.getvalue()
