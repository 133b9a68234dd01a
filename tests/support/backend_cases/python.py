"""The contract's models for the `python` backend."""

from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = ""
DATATYPES = tuple(datatype for datatype in DataType if datatype is not DataType.INVALID)

_PASSING = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(self.outputs(request)) for request in requests]

    def outputs(self, request):
        outputs = []
        for name in ("INPUT0", "INPUT1"):
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is not None:
                outputs.append(self.output(name.replace("IN", "OUT"), tensor))
        return outputs

    def output(self, name, tensor):
        try:
            return pb_utils.Tensor(name, tensor.as_numpy())
        except pb_utils.TritonModelException:  # BF16 has no numpy type
            return pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack())
"""
_FAILING = """
class TritonPythonModel:
    def execute(self, requests):
        raise RuntimeError("no answer today")
"""


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    _write(directory, _PASSING)
    return a_config(
        backend="python",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def optional(directory: Path) -> ModelConfig:
    _write(directory, _PASSING)
    return a_config(
        backend="python",
        max_batch_size=0,
        inputs=(a_tensor("INPUT0", DataType.FP32, -1), a_tensor("INPUT1", DataType.FP32, -1, optional=True)),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, -1), a_tensor("OUTPUT1", DataType.FP32, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    _write(directory, _FAILING)
    return a_config(
        backend="python",
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, -1),),
    )


def _write(directory: Path, code: str) -> None:
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "model.py").write_text(code)
