"""The module that `model.py` imports as `triton_python_backend_utils`: names, functions and constants of Triton's."""

import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.stub.called_models import ResponseIterator, is_model_ready, load_model, unload_model
from charonia_runtime.stub.context import context
from charonia_runtime.stub.exceptions import TritonError, TritonModelException
from charonia_runtime.stub.logger import Logger, LogLevel
from charonia_runtime.stub.metrics import Metric, MetricFamily
from charonia_runtime.stub.model_config import ModelConfig
from charonia_runtime.stub.request import MEMORY_CPU as TRITONSERVER_MEMORY_CPU
from charonia_runtime.stub.request import MEMORY_GPU as TRITONSERVER_MEMORY_GPU
from charonia_runtime.stub.request import RELEASE_ALL as TRITONSERVER_REQUEST_RELEASE_ALL
from charonia_runtime.stub.request import RELEASE_RESCHEDULE as TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
from charonia_runtime.stub.request import InferenceRequest, InferenceTrace, PreferredMemory
from charonia_runtime.stub.response import COMPLETE_FINAL as TRITONSERVER_RESPONSE_COMPLETE_FINAL
from charonia_runtime.stub.response import InferenceResponse, InferenceResponseSender
from charonia_runtime.stub.shared_memory import SharedMemory
from charonia_runtime.stub.tensor import Tensor

__all__ = [
    "TRITONSERVER_MEMORY_CPU", "TRITONSERVER_MEMORY_GPU", "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START", "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE", "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY", "TRITON_TO_NUMPY_TYPE", "InferenceRequest", "InferenceResponse",
    "InferenceResponseSender", "InferenceTrace", "LogLevel", "Logger", "Metric", "MetricFamily", "ModelConfig",
    "PreferredMemory", "ResponseIterator", "Tensor", "TritonError", "TritonModelException", "deserialize_bytes_tensor",
    "get_input_config_by_name", "get_input_tensor_by_name", "get_model_dir", "get_output_config_by_name",
    "get_output_tensor_by_name", "is_model_ready", "json", "load_model", "np", "numpy_to_triton_type",
    "serialize_byte_tensor", "shared_memory", "struct", "triton_string_to_numpy", "triton_to_numpy_type",
    "unload_model", "using_decoupled_model_transaction_policy",
]  # fmt: skip

for _class in (
    InferenceRequest, InferenceResponse, InferenceResponseSender, InferenceTrace, Logger, LogLevel, Metric,
    MetricFamily, PreferredMemory, ResponseIterator, SharedMemory, Tensor, TritonError, TritonModelException,
):  # fmt: skip
    _class.__module__ = "c_python_backend_utils"  # what Triton's texts call them

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2

shared_memory = SharedMemory()

TRITON_STRING_TO_NUMPY: dict[str, Any] = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8, "TYPE_UINT16": np.uint16, "TYPE_UINT32": np.uint32, "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8, "TYPE_INT16": np.int16, "TYPE_INT32": np.int32, "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16, "TYPE_FP32": np.float32, "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}  # fmt: skip
TRITON_TO_NUMPY_TYPE: dict[int, Any] = {
    number: np.bool_ if kind is bool else kind for number, kind in enumerate(TRITON_STRING_TO_NUMPY.values(), start=1)
}
_NUMBERS: dict[Any, int] = {kind: number for number, kind in TRITON_TO_NUMPY_TYPE.items()}
_NUMBERS[np.bytes_] = _NUMBERS[np.object_]


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """The input called `name`; None when the request has none of that name."""
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """The output called `name`; None when the response has none of that name."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The configuration of input `name` in the parsed `args["model_config"]`."""
    return _find(model_config, "input", name)


def get_output_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The configuration of output `name` in the parsed `args["model_config"]`."""
    return _find(model_config, "output", name)


def _find(model_config: dict[str, Any], key: str, name: str) -> dict[str, Any] | None:
    entries: list[dict[str, Any]] = model_config.get(key, [])
    return next((entry for entry in entries if entry["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config: dict[str, Any]) -> bool:
    """Whether the configuration makes the model decoupled."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """`TYPE_FP32` → `numpy.float32`. Raises KeyError for types that numpy lacks."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type: int) -> Any:
    """A type's number → its numpy type; None for types that numpy lacks."""
    return TRITON_TO_NUMPY_TYPE.get(data_type)


def numpy_to_triton_type(data_type: Any) -> int | None:
    """A numpy type, or a dtype → its number; None for others."""
    return _NUMBERS.get(data_type.type if isinstance(data_type, np.dtype) else data_type)


def serialize_byte_tensor(input_tensor: npt.NDArray[Any]) -> Any:
    """Elements of a bytes or object array in wire encoding; `()` for none of them, None for other arrays."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.type != np.bytes_:
        return None
    pieces: list[bytes] = []
    for element in input_tensor.reshape(-1).tolist():
        raw = element if isinstance(element, bytes) else str(element).encode()
        pieces += (struct.pack("<I", len(raw)), raw)
    return b"".join(pieces)


def deserialize_bytes_tensor(encoded_tensor: bytes) -> npt.NDArray[np.object_]:
    """A one-dimensional object array of the `bytes` in wire encoding. Raises struct.error when it is cut short."""
    elements: list[bytes] = []
    at = 0
    while at < len(encoded_tensor):
        (length,) = struct.unpack_from("<I", encoded_tensor, at)
        elements += struct.unpack_from(f"<{length}s", encoded_tensor, at + 4)
        at += 4 + length
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


def get_model_dir() -> str:
    """The folder of the model's version."""
    return context.version_directory
