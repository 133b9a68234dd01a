"""The functions, constants and constructors that models use."""

import ast
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import charonia_runtime
import charonia_runtime.stub.triton_python_backend_utils as pb_utils

NAMES_OF_TRITON = [
    "InferenceRequest", "InferenceResponse", "Logger", "MetricFamily", "ModelConfig", "PreferredMemory",
    "TRITONSERVER_MEMORY_CPU", "TRITONSERVER_MEMORY_GPU", "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START", "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE", "TRITONSERVER_RESPONSE_COMPLETE_FINAL", "TRITON_STRING_TO_NUMPY",
    "Tensor", "TritonError", "TritonModelException", "deserialize_bytes_tensor", "get_input_config_by_name",
    "get_input_tensor_by_name", "get_model_dir", "get_output_config_by_name", "get_output_tensor_by_name",
    "is_model_ready", "json", "load_model", "np", "numpy_to_triton_type", "serialize_byte_tensor", "struct",
    "triton_string_to_numpy", "triton_to_numpy_type", "unload_model", "using_decoupled_model_transaction_policy",
]  # fmt: skip


def test_it_exports_what_triton_exports() -> None:
    assert [name for name in NAMES_OF_TRITON if not hasattr(pb_utils, name)] == []
    assert [name for name in pb_utils.__all__ if not hasattr(pb_utils, name)] == []


def test_types_have_their_numbers_and_names() -> None:
    assert pb_utils.triton_string_to_numpy("TYPE_FP32") is np.float32
    assert pb_utils.triton_string_to_numpy("TYPE_BOOL") is bool
    assert pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_
    with pytest.raises(KeyError):
        pb_utils.triton_string_to_numpy("TYPE_BF16")
    for number in range(1, 14):
        assert pb_utils.numpy_to_triton_type(pb_utils.triton_to_numpy_type(number)) == number
    assert pb_utils.triton_to_numpy_type(1) is np.bool_
    assert pb_utils.numpy_to_triton_type(np.float32) == 11
    assert pb_utils.numpy_to_triton_type(np.dtype("float32")) == 11
    assert pb_utils.numpy_to_triton_type(np.bytes_) == 13
    assert [pb_utils.numpy_to_triton_type(other) for other in (np.complex64, "float32", bool, None)] == [None] * 4
    assert pb_utils.triton_to_numpy_type(14) is None


def test_strings_are_packed_and_unpacked() -> None:
    packed = pb_utils.serialize_byte_tensor(np.array([["a", b"bc"], [5, b""]], np.object_))
    assert packed == b"\1\0\0\0a\2\0\0\0bc\1\0\0\x005\0\0\0\0"
    assert pb_utils.deserialize_bytes_tensor(packed).tolist() == [b"a", b"bc", b"5", b""]
    assert pb_utils.serialize_byte_tensor(np.array([], np.object_)) == ()
    assert pb_utils.serialize_byte_tensor(np.zeros(1)) is None
    with pytest.raises(struct.error):
        pb_utils.deserialize_bytes_tensor(packed[:-1])


def test_configurations_are_searched_by_name() -> None:
    config = {"input": [{"name": "A"}, {"name": "B", "x": 1}], "model_transaction_policy": {"decoupled": True}}
    assert pb_utils.get_input_config_by_name(config, "B") == {"name": "B", "x": 1}
    assert pb_utils.get_output_config_by_name(config, "B") is None
    assert pb_utils.using_decoupled_model_transaction_policy(config)
    assert not pb_utils.using_decoupled_model_transaction_policy({})


def test_error_codes_print_as_in_triton() -> None:
    code = pb_utils.TritonError.NOT_FOUND
    assert (str(code), repr(code), int(code)) == ("__ErrorCode.NOT_FOUND", "<__ErrorCode.NOT_FOUND: 2>", 2)
    error = pb_utils.TritonError("text", code)
    assert (error.message(), error.code()) == ("text", code)
    assert pb_utils.TritonError("text").code() is pb_utils.TritonError.INTERNAL
    assert (code == 2, hash(code)) == (True, 2)
    with pytest.raises(TypeError, match=r"Invoked with: 'text', 2$"):
        pb_utils.TritonError("text", 2)
    assert not isinstance(error, Exception)
    with pytest.raises(TypeError, match=r"Invoked with: 5$"):
        pb_utils.TritonError(5)


def test_classes_have_triton_s_names_in_texts() -> None:
    assert str(pb_utils.InferenceRequest) == "<class 'c_python_backend_utils.InferenceRequest'>"
    assert str(pb_utils.Logger.INFO) == "LogLevel.INFO"
    assert str(pb_utils.TRITONSERVER_MEMORY_GPU) == "MemoryType.TRITONSERVER_MEMORY_GPU"


def a_request(**changes: Any) -> pb_utils.InferenceRequest:
    values = {"model_name": "m", "inputs": [], "requested_output_names": []} | changes
    return pb_utils.InferenceRequest(**values)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"correlation_id": 1.5}, "Correlation ID must be integer or string"),
        (
            {"requested_output_names": [""], "request_id": "r"},
            "Requested output name for request with id 'r' and model name 'm' should not be empty.",
        ),
        ({"inputs": [None]}, "Input tensor for request with id '' and model name 'm' should not be empty."),
        (
            {"parameters": {"a": 1.5}},
            "Expect parameters values to have type bool/int/str, found type <class 'float'>",
        ),
        ({"parameters": {1: 1}}, "Expect parameters keys to have type str, found type <class 'int'>"),
        ({"parameters": 5}, "Expect N8pybind114dictE, got <class 'int'>"),
    ],
)
def test_requests_refuse_what_triton_refuses(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(pb_utils.TritonModelException) as caught:
        a_request(**changes)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: a_request(correlation_id=None), "correlation_id=None"),
        (lambda: pb_utils.Logger.log("x", None), "log(): incompatible function arguments."),  # type: ignore[arg-type]
        (lambda: pb_utils.Logger.log("x", 1), "log(): incompatible function arguments."),  # type: ignore[arg-type]
        (lambda: pb_utils.Logger.log(None), "log(): incompatible function arguments."),  # type: ignore[arg-type]
        (lambda: pb_utils.Logger.log_warn(5), "log_warn(): incompatible function arguments."),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_other_types_are_refused_as_triton_refuses_them(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given", "seen"),
    [
        ("request_id", b"r", "r"),
        ("request_id", np.str_("r"), "r"),
        ("timeout", np.int64(5), 5),
        ("timeout", 2**64 - 1, 2**64 - 1),
        ("flags", np.uint8(1), 1),
        ("flags", 2**32 - 1, 2**32 - 1),
        ("correlation_id", True, 1),
        ("correlation_id", np.str_("c"), "c"),
        ("requested_output_names", [b"x"], {"x"}),
        ("requested_output_names", ("x", "y"), {"x", "y"}),
        ("requested_output_names", np.array([b"x"], np.object_), {"x"}),
        ("requested_output_names", np.array(["x"]), {"x"}),
        ("parameters", {"a": 1, "b": "x"}, '{"a": 1, "b": "x"}'),
        ("parameters", None, "{}"),
    ],
)
def test_requests_take_what_triton_takes(name: str, given: Any, seen: Any) -> None:
    """Models pass elements of string tensors, numpy's numbers and arrays of names."""
    found = getattr(a_request(**{name: given}), name)()
    assert found == seen
    assert type(found) is type(seen)


@pytest.mark.parametrize("given", [b"m", np.array([b"m"], np.object_)[0], np.bytes_(b"m"), bytearray(b"m")])
def test_names_may_be_bytes(given: Any) -> None:
    with pytest.raises(pb_utils.TritonModelException, match=r"model name 'm' should not be empty"):
        a_request(model_name=given, inputs=[None])
    assert pb_utils.Tensor(given, np.zeros(1)).name() == "m"
    assert pb_utils.Tensor.from_dlpack(given, np.zeros(1)).name() == "m"
    assert pb_utils.TritonError(given).message() == "m"
    a_request(model_version=np.int32(1))


@pytest.mark.parametrize("given", [-1, 2**64])
def test_correlation_ids_have_64_bits(given: int) -> None:
    with pytest.raises(RuntimeError, match="Unable to cast Python instance"):
        a_request(correlation_id=given)


def test_flags_are_set_to_plain_numbers() -> None:
    request = a_request()
    request.set_flags(np.int32(1))
    assert type(request.flags()) is int
    with pytest.raises(TypeError):
        request.set_flags("x")  # type: ignore[arg-type]


def test_a_configuration_may_be_text() -> None:
    assert pb_utils.ModelConfig('{"name": "m"}').as_dict() == {"name": "m"}


@pytest.mark.parametrize(
    "changes",
    [
        {"model_name": None}, {"inputs": None}, {"inputs": [5]}, {"flags": "x"}, {"preferred_memory": 1},
        {"flags": -1}, {"flags": 2**32}, {"timeout": -5}, {"timeout": 1.0}, {"model_version": 2**63},
        {"requested_output_names": "xy"}, {"requested_output_names": {"x"}}, {"requested_output_names": {"x": 1}},
        {"requested_output_names": [5]}, {"inputs": iter([])}, {"request_id": 5}, {"model_name": memoryview(b"m")},
    ],
)  # fmt: skip
def test_requests_of_wrong_types_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        a_request(**changes)


def test_responses_have_tensors_or_an_error() -> None:
    tensor = pb_utils.Tensor("A", np.zeros(1))
    response = pb_utils.InferenceResponse([tensor], parameters={"a": True})
    assert (response.output_tensors(), response.has_error(), response.error()) == ([tensor], False, None)
    assert response.parameters() == '{"a": true}'
    assert pb_utils.get_output_tensor_by_name(response, "A") is tensor
    assert pb_utils.get_output_tensor_by_name(response, "B") is None
    failed = pb_utils.InferenceResponse([tensor], error=pb_utils.TritonError("no"))
    assert (failed.output_tensors(), failed.has_error()) == ([tensor], True)
    with pytest.raises(pb_utils.TritonModelException, match="should not be empty"):
        pb_utils.InferenceResponse([None])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"Invoked with: \[1\]$"):
        pb_utils.InferenceResponse([1])  # type: ignore[list-item]


def test_the_child_s_code_is_readable_by_python_3_10() -> None:
    """A model's environment may be older than the server's."""
    root = Path(charonia_runtime.__file__).parent
    core = [root / "core" / f"{name}.py" for name in ("datatypes", "errors", "request", "tensor")]
    sources = [*core, *(root / "ipc").glob("*.py"), *(root / "stub").glob("*.py")]
    assert len(sources) > 20
    for path in sources:
        tree = ast.parse(path.read_text(), path.name, feature_version=(3, 10))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        ours = {name for name in imported if name.startswith("charonia_runtime")}
        assert all(name.split(".")[1] in {"core", "ipc", "stub"} for name in ours), (path, ours)
        assert not any(name.startswith("typing_extensions") for name in imported)
