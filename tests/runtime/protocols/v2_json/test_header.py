"""The JSON header of inference requests: what is understood, and what is refused with which text."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ErrorCode, InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest, InferenceResponse, SequenceId
from charonia_runtime.core.tensor import SharedMemoryRef
from charonia_runtime.protocols.v2_json import RequestDecoder
from charonia_runtime.protocols.v2_json.header import OutputForm, read_header

LIMIT = 1_000_000
NUMERIC = [member for member in DataType if member.item_size and member is not DataType.BF16]
JSON_TYPES = [member for member in NUMERIC if member is not DataType.FP16]


class Sink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError


def decode(document: Any, binary: bytes = b"", decoder: RequestDecoder | None = None) -> InferenceRequest:
    return decode_with_form(document, binary, decoder)[0]


def decode_with_form(
    document: Any, binary: bytes = b"", decoder: RequestDecoder | None = None
) -> tuple[InferenceRequest, OutputForm]:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return (decoder or RequestDecoder(LIMIT)).decode(text, memoryview(binary), "simple", ANY_VERSION, Sink())


def an_input(**changes: Any) -> dict[str, Any]:
    """An input of four numbers; None leaves a key out."""
    entry = {"name": "INPUT", "datatype": "INT32", "shape": [1, 4], "data": [1, 2, 3, 4], **changes}
    return {key: value for key, value in entry.items() if value is not None}


def refusal(document: Any, binary: bytes = b"") -> tuple[ErrorCode, str]:
    with pytest.raises(InferenceError) as caught:
        decode(document, binary)
    return caught.value.code, caught.value.message


INTERNAL, INVALID = ErrorCode.INTERNAL, ErrorCode.INVALID_ARGUMENT
NON_UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer"
ONE_SOURCE = (
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
    "'shared_memory_region' in 'parameters'. But "
)
FAULTS: list[tuple[str, Any, ErrorCode, str]] = [
    ("array", [], INTERNAL, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ("number", 5, INTERNAL, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ("inputs", {"inputs": {}}, INTERNAL, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
    ("input", {"inputs": [1]}, INVALID, ONE_SOURCE + "no field is set"),
    ("id", {"id": 5, "inputs": []}, INTERNAL, "Unable to parse 'id': attempt to access JSON non-string as string"),
    ("name", {"inputs": [an_input(name=None)]}, INTERNAL,
     "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    ("name-type", {"inputs": [an_input(name=1)]}, INTERNAL,
     "Unable to parse 'name': attempt to access JSON non-string as string"),
    ("datatype", {"inputs": [an_input(datatype=None)]}, INTERNAL,
     "Unable to parse 'datatype': attempt to access non-existing object member 'datatype'"),
    ("datatype-unknown", {"inputs": [an_input(datatype="int32")]}, INVALID, "invalid datatype for input INPUT"),
    ("shape", {"inputs": [an_input(shape=None)]}, INTERNAL,
     "Unable to parse 'shape': attempt to access non-existing object member 'shape'"),
    ("shape-negative", {"inputs": [an_input(shape=[-1, 4])]}, INTERNAL, f"Unable to parse 'shape': {NON_UNSIGNED}"),
    ("shape-text", {"inputs": [an_input(shape=["1"])]}, INTERNAL, f"Unable to parse 'shape': {NON_UNSIGNED}"),
    ("shape-object", {"inputs": [an_input(shape={})]}, INTERNAL,
     "Unable to parse 'shape': attempt to access JSON non-array as array"),
    ("shape-too-large", {"inputs": [an_input(shape=[2**63])]}, INVALID,
     "invalid shape for input 'INPUT': shape [9223372036854775808] contains one or more invalid dimensions"),
    ("shape-overflow", {"inputs": [an_input(shape=[2**40, 2**40])]}, INVALID,
     ("invalid shape for input 'INPUT': shape [1099511627776,1099511627776] causes total element count to exceed "
     "maximum size of 9223372036854775807")),
    ("size-overflow", {"inputs": [an_input(shape=[2**62])]}, INVALID,
     ("byte size overflow for input 'INPUT': element count (4611686018427387904) * data type size (4) exceeds maximum "
     "allowed size (9223372036854775807)")),
    ("size-limit", {"inputs": [an_input(shape=[250_001])]}, INVALID,
     ("JSON input 'INPUT' has a byte_size (1000004 bytes) that exceeds the maximum allowed value of 1000000 bytes. "
     "Use --http-max-input-size to increase the limit.")),
    ("twice", {"id": "x", "inputs": [an_input(), an_input()]}, INVALID,
     "[request id: x] input 'INPUT' already exists in request"),
    ("no-data", {"inputs": [an_input(data=None)]}, INVALID, ONE_SOURCE + "no field is set"),
    ("two-sources", {"inputs": [an_input(parameters={"binary_data_size": 4})]}, INVALID,
     ONE_SOURCE + "set 'data' 'binary_data_size'"),
    ("three-sources", {"inputs": [an_input(parameters={"binary_data_size": 4, "shared_memory_region": "a"})]}, INVALID,
     ONE_SOURCE + "set 'data' 'binary_data_size' 'shared_memory_region'"),
    ("binary-size", {"inputs": [an_input(data=None, parameters={"binary_data_size": "4"})]}, INTERNAL,
     f"Unable to parse 'binary_data_size': {NON_UNSIGNED}"),
    ("binary-short", {"inputs": [an_input(data=None, parameters={"binary_data_size": 16})]}, INVALID,
     "unexpected size for input 'INPUT', expecting 12 additional bytes for model 'simple'"),
    ("binary-left-over", {"inputs": [an_input(data=None, parameters={"binary_data_size": 3})]}, INVALID,
     "unexpected additional input data for model 'simple'"),
    ("memory-region", {"inputs": [an_input(data=None, parameters={"shared_memory_region": 5})]}, INTERNAL,
     "Unable to parse 'shared_memory_region': attempt to access JSON non-string as string"),
    ("memory-size",
     {"inputs": [an_input(data=None, parameters={"shared_memory_region": "a", "shared_memory_byte_size": "x"})]},
     INTERNAL, f"Unable to parse 'shared_memory_byte_size': {NON_UNSIGNED}"),
    ("data-scalar", {"inputs": [an_input(data=1)]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-array as array"),
    ("data-many", {"inputs": [an_input(data=[1, 2, 3, 4, 5])]}, INTERNAL,
     "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    ("data-few", {"inputs": [an_input(data=[1, 2, 3])]}, INTERNAL,
     "Failed to parse 'data' field: shape does not match true shape"),
    ("data-many-before-type", {"inputs": [an_input(data=[1, 2, 3, 4, "5"])]}, INTERNAL,
     "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    ("data-fraction", {"inputs": [an_input(data=[1.5, 2, 3, 4])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("data-object", {"inputs": [an_input(data=[{"a": 1}, 2, 3, 4])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("data-deep", b'{"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1],"data":' + b"[" * 101 + b"]" * 101 + b"}]}",
     INVALID, "Unable to parse 'data': JSON nesting depth exceeds maximum allowed limit (100)"),
    ("fp16", {"inputs": [an_input(datatype="FP16")]}, INVALID,
     "receiving FP16 data via JSON is not supported. Please use the binary data format for input INPUT"),
    ("bf16", {"inputs": [an_input(datatype="BF16")]}, INVALID,
     "receiving BF16 data via JSON is not supported. Please use the binary data format for input INPUT"),
    ("uint-negative", {"inputs": [an_input(datatype="UINT32", data=[1, 2, 3, -1])]}, INTERNAL,
     f"Unable to parse 'data': {NON_UNSIGNED}"),
    ("uint-large", {"inputs": [an_input(datatype="UINT64", data=[2**64, 2, 3, 4])]}, INTERNAL,
     f"Unable to parse 'data': {NON_UNSIGNED}"),
    ("int-large", {"inputs": [an_input(datatype="INT64", data=[2**63, 2, 3, 4])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("int-bool", {"inputs": [an_input(data=[True, 2, 3, 4])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("bool-number", {"inputs": [an_input(datatype="BOOL", data=[1, 0, 1, 0])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-boolean as boolean"),
    ("float-text", {"inputs": [an_input(datatype="FP32", data=["NaN", 0, 1, 0])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-number as double"),
    ("float-bool", {"inputs": [an_input(datatype="FP64", data=[True, 0, 1, 0])]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-number as double"),
    ("bytes-number", {"inputs": [an_input(datatype="BYTES", data=["a", 1])]}, INTERNAL,
     "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
    ("bytes-scalar", {"inputs": [an_input(datatype="BYTES", data="a")]}, INTERNAL,
     "Unable to parse 'data': attempt to access JSON non-array as array"),
    ("parameters", {"parameters": [], "inputs": []}, INTERNAL,
     "failed to get request params.: attempt to get members for non-object"),
    ("parameter-null", {"parameters": {"key": None}, "inputs": []}, INVALID,
     "parameter 'key' has invalid type. It should be either 'int', 'bool', or 'string'."),
    ("parameter-reserved", {"parameters": {"triton_x": 1}, "inputs": []}, INVALID,
     "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."),
    ("priority", {"parameters": {"priority": -2}, "inputs": []}, INTERNAL, f"Unable to parse 'priority': {NON_UNSIGNED}"),
    ("timeout", {"parameters": {"timeout": "5"}, "inputs": []}, INTERNAL, f"Unable to parse 'timeout': {NON_UNSIGNED}"),
    ("sequence-start", {"parameters": {"sequence_start": 1}, "inputs": []}, INTERNAL,
     "Unable to parse 'sequence_start': attempt to access JSON non-boolean as boolean"),
    ("sequence-id", {"parameters": {"sequence_id": -1}, "inputs": []}, INTERNAL,
     "Unable to parse 'sequence_id': attempt to access JSON non-string as string"),
    ("sequence-id-long", {"parameters": {"sequence_id": "a" * 129}, "inputs": []}, ErrorCode.UNSUPPORTED,
     "string correlation ID cannot be longer than 128 characters"),
    ("binary-output", {"parameters": {"binary_data_output": "true"}, "inputs": []}, INTERNAL,
     "Unable to parse 'binary_data_output': attempt to access JSON non-boolean as boolean"),
    ("outputs", {"inputs": [], "outputs": {}}, INTERNAL,
     "Unable to parse 'outputs': attempt to access JSON non-array as array"),
    ("output-name", {"inputs": [], "outputs": [5]}, INTERNAL,
     "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    ("binary-data", {"inputs": [], "outputs": [{"name": "O", "parameters": {"binary_data": 1}}]}, INTERNAL,
     "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean"),
    ("classification", {"inputs": [], "outputs": [{"name": "O", "parameters": {"classification": "2"}}]}, INTERNAL,
     f"Unable to set 'classification': {NON_UNSIGNED}"),
    ("memory-and-classes",
     {"inputs": [], "outputs": [{"name": "O", "parameters": {"classification": 2, "shared_memory_region": "a"}}]},
     INVALID, "Output can't set both 'shared_memory_region' and 'classification'"),
    ("memory-and-binary",
     {"inputs": [], "outputs": [{"name": "O", "parameters": {"binary_data": True, "shared_memory_region": "a"}}]},
     INVALID, "Output can't set both 'shared_memory_region' and 'binary_data'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "code", "text"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_faults(document: Any, code: ErrorCode, text: str) -> None:
    binary = b"1234" if text.startswith(("unexpected", "Unable to parse 'binary_data_size")) else b""
    assert refusal(document, binary) == (code, text)


def test_faults_are_found_in_order() -> None:
    """The first input is too short, the second has no name: the first fault counts."""
    first = an_input(data=None, parameters={"binary_data_size": 16})
    assert "expecting 8 additional bytes" in refusal({"inputs": [first, {}]}, b"12345678")[1]
    assert "must set only one" in refusal({"inputs": [first, {}]}, bytes(16))[1]


def test_a_header_larger_than_the_limit() -> None:
    with pytest.raises(InvalidArgumentError, match="request JSON size of 12 bytes exceeds the maximum allowed input"):
        decode(b'{"inputs":[]', decoder=RequestDecoder(11))


def test_everything_that_a_request_may_say() -> None:
    document = {
        "id": "seven",
        "parameters": {
            "sequence_id": "s", "sequence_start": True, "priority": 3, "timeout": 10, "binary_data_output": True,
            "text": "a", "number": -5, "flag": True, "double": 0.5, "large": 2**63, "headers": "x",
        },
        "inputs": [
            an_input(name="A", data=None, shape=[2], parameters={"binary_data_size": 8}),
            an_input(name="B", unknown=1),
            an_input(name="C", data=None, parameters={
                "shared_memory_region": "r", "shared_memory_byte_size": 16, "shared_memory_offset": 4}),
        ],
        "outputs": [
            {"name": "X", "parameters": {"binary_data": True, "unknown": 1}},
            {"name": "Y", "parameters": {"classification": 2}},
            {"name": "Z", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 1}},
        ],
    }  # fmt: skip
    request, form = decode_with_form(document, b"12345678")
    assert request.id == "seven"
    assert request.sequence == SequenceId("s", start=True)
    assert (request.priority, request.timeout_us) == (3, 10)
    assert request.parameters == {
        "text": "a", "number": -5, "flag": True, "double": 0.5, "large": float(2**63), "headers": "x",
    }  # fmt: skip
    assert list(request.inputs) == ["A", "B", "C"]
    assert bytes(request.inputs["A"].buffer) == b"12345678"
    assert request.inputs["B"].as_numpy().tolist() == [[1, 2, 3, 4]]
    assert request.inputs["C"].data == SharedMemoryRef("r", 16, 4)
    assert [(output.name, output.classes, output.shared_memory) for output in request.outputs] == [
        ("X", 0, None), ("Y", 2, None), ("Z", 0, SharedMemoryRef("r", 1)),
    ]  # fmt: skip
    assert (form.default, form.listed) == (True, {"X": True, "Y": False, "Z": False})


def test_the_first_of_equal_keys_counts() -> None:
    assert decode(b'{"id":"first","id":"second","inputs":[]}').id == "first"


def test_requests_with_the_same_header_share_nothing() -> None:
    decoder = RequestDecoder(LIMIT)
    document = {
        "parameters": {"a": 1},
        "inputs": [an_input(data=None, parameters={"binary_data_size": 16})],
        "outputs": [{"name": "X"}],
    }
    first = decode(document, b"a" * 16, decoder)
    second = decode(document, b"b" * 16, decoder)
    assert bytes(first.inputs["INPUT"].buffer) == b"a" * 16
    assert bytes(second.inputs["INPUT"].buffer) == b"b" * 16
    second.parameters["b"] = 2
    second.outputs[0].memory = memoryview(b"")
    second.inputs["INPUT"].data = SharedMemoryRef("r", 1)
    third = decode(document, b"c" * 16, decoder)
    assert third.parameters == {"a": 1}
    assert third.outputs[0].memory is None
    assert bytes(third.inputs["INPUT"].buffer) == b"c" * 16
    with pytest.raises(InvalidArgumentError, match="expecting 1 additional bytes"):
        decode(document, b"c" * 15, decoder)


def test_memory_of_headers_is_bounded() -> None:
    decoder = RequestDecoder(LIMIT)
    for number in range(2000):
        decode({"id": str(number), "inputs": []}, decoder=decoder)
    assert len(decoder._remembered) <= 512


@pytest.mark.parametrize(
    ("datatype", "data", "expected"),
    [
        ("UINT8", [256, 300], [0, 44]),
        ("INT8", [128, -129], [-128, 127]),
        ("INT32", [2**32 + 5, -1], [5, -1]),
        ("UINT64", [2**64 - 1, 0], [2**64 - 1, 0]),
        ("FP32", [1e39, 1], [math.inf, 1.0]),
        ("FP64", [0.1, 2**64 - 1], [0.1, float(2**64)]),
        ("BOOL", [True, False], [True, False]),
        ("INT32", [[[1]], [[2]]], [1, 2]),
        ("INT32", [[[1], 2]], [1, 2]),
        ("BYTES", ["é\0", ["\udcff"]], ["é\0".encode(), b"\xff"]),
    ],
)
def test_conversions(datatype: str, data: Sequence[Any], expected: list[Any]) -> None:
    text = json.dumps({"inputs": [an_input(datatype=datatype, shape=[2], data=data)]}, ensure_ascii=False)
    request = decode(text.encode("utf-8", "surrogateescape"))
    tensor = request.inputs["INPUT"].as_numpy()
    assert tensor.tolist() == expected
    assert request.inputs["INPUT"].buffer.readonly


def test_no_elements_need_no_sensible_data() -> None:
    assert decode({"inputs": [an_input(shape=[0, 4], data=[1, "x"])]}).inputs["INPUT"].byte_size == 0


def test_a_shape_of_many_sizes_is_refused_before_they_are_multiplied() -> None:
    """A hundred thousand sizes took 23 seconds, and a reply of two megabytes."""
    code, message = refusal({"inputs": [an_input(shape=[2**63 - 1] * 40_000)]})
    assert (code, message) == (
        INVALID,
        "invalid shape for input 'INPUT': it has 40000 dimensions, at most 1024 are accepted",
    )
    code, message = refusal({"inputs": [an_input(shape=[2**63 - 1] * 1024)]})
    assert message.endswith(f"causes total element count to exceed maximum size of {2**63 - 1}")


def test_an_output_may_be_requested_once_unless_old_rules_hold() -> None:
    document = {"inputs": [], "outputs": [{"name": "O"}, {"name": "O", "parameters": {"binary_data": True}}]}
    assert refusal({"id": "7", **document}) == (INVALID, "[request id: 7] output 'O' already exists in request")
    request, form = decode_with_form(document, decoder=RequestDecoder(LIMIT, newest_rules=False))
    assert ([output.name for output in request.outputs], form.listed) == (["O"], {"O": False})


@pytest.mark.parametrize("count", [4, 40_000])
def test_too_few_elements_have_words_of_their_own_unless_old_rules_hold(count: int) -> None:
    text = json.dumps({"inputs": [an_input(shape=[count], data=[7] * (count - 1))]}).encode()
    found = []
    for newest_rules in (True, False):
        with pytest.raises(InternalError) as caught:
            read_header(text, 0, "simple", LIMIT, newest_rules=newest_rules)
        found.append(caught.value.message)
    assert found == [
        "Failed to parse 'data' field: shape does not match true shape",
        "Unable to parse 'data': Shape does not match true shape of 'data' field",
    ]
