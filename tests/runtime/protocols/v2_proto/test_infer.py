"""Decoding of ModelInferRequest: tensors, parameters, and Triton's text for each mistake."""

from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tritonclient.grpc.service_pb2 import ModelInferRequest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, SequenceId
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.protocols.v2_proto.infer import InferMessage, MessageBytes


class NoSink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError("nothing answers here")


def decode(document: dict[str, Any] | ModelInferRequest | bytes) -> InferenceRequest:
    """The request that a message, written as JSON, becomes."""
    if isinstance(document, dict):
        document = json_format.ParseDict(document, ModelInferRequest())
    data = document if isinstance(document, bytes) else document.SerializeToString()
    return InferMessage(MessageBytes(data)).request(3, NoSink())


def tensor(**fields: Any) -> dict[str, Any]:
    return {"name": "IN", "datatype": "INT32", "shape": [2], **fields}


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(InferenceError) as caught:
        decode(document)
    assert isinstance(caught.value, InvalidArgumentError)
    return caught.value.message


NUMERIC = [member for member in DataType if member.item_size]


@given(st.data(), st.sampled_from(NUMERIC), st.integers(0, 3000), st.booleans())
def test_raw_tensors_arrive_bit_for_bit(data: st.DataObject, datatype: DataType, size: int, two: bool) -> None:
    raw = data.draw(st.binary(min_size=8, max_size=8)) * size
    shape = (len(raw) // datatype.item_size,)
    message = ModelInferRequest(model_name="m", id="7")
    for name in ("A", "B") if two else ("A",):
        message.inputs.add(name=name, datatype=datatype.wire_name, shape=shape)
        message.raw_input_contents.append(raw)
    request = decode(message)
    assert (request.model_name, request.id, request.model_version) == ("m", "7", 3)
    for found in request.inputs.values():
        assert (found.datatype, found.shape, bytes(found.buffer)) == (datatype, shape, raw)


def test_large_raw_tensors_are_views_of_the_message() -> None:
    message = ModelInferRequest(model_name="m", raw_input_contents=[bytes(100_000)])
    message.inputs.add(name="A", datatype="UINT8", shape=[100_000])
    data = message.SerializeToString()
    found = decode(data).inputs["A"]
    assert found.buffer.obj is data


CONTENTS = {
    DataType.BOOL: "bool_contents",
    DataType.INT8: "int_contents",
    DataType.INT16: "int_contents",
    DataType.INT32: "int_contents",
    DataType.INT64: "int64_contents",
    DataType.UINT8: "uint_contents",
    DataType.UINT16: "uint_contents",
    DataType.UINT32: "uint_contents",
    DataType.UINT64: "uint64_contents",
    DataType.FP32: "fp32_contents",
    DataType.FP64: "fp64_contents",
}


@given(st.data(), st.sampled_from(sorted(CONTENTS, key=lambda kind: kind.value)))
def test_contents_become_the_bytes_of_a_raw_tensor(data: st.DataObject, datatype: DataType) -> None:
    array = data.draw(hnp.arrays(datatype.numpy_dtype, st.integers(0, 20)))
    message = ModelInferRequest(model_name="m")
    entry = message.inputs.add(name="IN", datatype=datatype.wire_name, shape=array.shape)
    entry.contents.SetInParent()
    getattr(entry.contents, CONTENTS[datatype]).extend(array.tolist())
    found = decode(message).inputs["IN"].as_numpy()
    assert np.array_equal(found, array, equal_nan=array.dtype.kind == "f")


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_bytes_contents_get_their_lengths(elements: list[bytes]) -> None:
    message = ModelInferRequest(model_name="m")
    entry = message.inputs.add(name="IN", datatype="BYTES", shape=[len(elements)])
    entry.contents.bytes_contents.extend(elements)
    entry.contents.SetInParent()
    assert decode(message).inputs["IN"].as_numpy().tolist() == elements


def test_narrow_types_keep_the_low_bytes() -> None:
    int8 = tensor(datatype="INT8", shape=[3], contents={"int_contents": [300, -129, 1]})
    assert decode({"inputs": [int8]}).inputs["IN"].as_numpy().tolist() == [44, 127, 1]
    uint16 = tensor(datatype="UINT16", shape=[1], contents={"uint_contents": [70000]})
    assert decode({"inputs": [uint16]}).inputs["IN"].as_numpy().tolist() == [4464]


def test_surplus_raw_contents_are_ignored() -> None:
    message = ModelInferRequest(raw_input_contents=[b"12345678", b"rest"])
    message.inputs.add(name="IN", datatype="INT32", shape=[2])
    assert bytes(decode(message).inputs["IN"].buffer) == b"12345678"


def test_tensors_in_shared_memory_take_no_raw_contents() -> None:
    message = json_format.ParseDict(
        {
            "inputs": [
                tensor(name="A", parameters={
                    "shared_memory_region": {"string_param": "r"}, "shared_memory_byte_size": {"int64_param": 8},
                    "shared_memory_offset": {"int64_param": 4},
                }),
                tensor(name="B"),
            ]
        },
        ModelInferRequest(),
    )  # fmt: skip
    message.raw_input_contents.append(b"12345678")
    inputs = decode(message).inputs
    assert inputs["A"].data == SharedMemoryRef("r", 8, 4)
    assert bytes(inputs["B"].buffer) == b"12345678"


def test_unknown_datatypes_are_invalid_and_left_to_the_model() -> None:
    message = ModelInferRequest(raw_input_contents=[b""])
    message.inputs.add(name="IN", datatype="int32")
    assert decode(message).inputs["IN"] == Tensor("IN", DataType.INVALID, (), memoryview(b""))


REGION = {"string_param": "r"}
SIZE = {"int64_param": 8}
INTS = {"int_contents": [1, 2]}


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([tensor()], "unable to find data for input tensor 'IN' for model 'm' in request."),
        (
            [tensor(contents={"fp32_contents": [1.0]})],
            (
                "unexpected explicit tensor data for input tensor 'IN' for model 'm' of type 'FP32', expected datatype "
                "'INT32'"
            ),
        ),
        (
            [tensor(datatype="FLOAT", contents={"fp32_contents": [1.0]})],
            (
                "unexpected explicit tensor data for input tensor 'IN' for model 'm' of type 'FP32', expected datatype "
                "'<invalid>'"
            ),
        ),
        (
            [tensor(datatype="UINT8", contents=INTS)],
            (
                "unexpected explicit tensor data for input tensor 'IN' for model 'm' of type 'INT32', expected datatype "
                "'UINT8'"
            ),
        ),
        (
            [tensor(contents={"int_contents": [1], "fp64_contents": [1]})],
            "unexpected explicit tensor data for input tensor 'IN' for model 'm', binary data was already supplied.",
        ),
        (
            [tensor(contents={"bytes_contents": ["AA=="], "int64_contents": [1]})],
            (
                "unexpected explicit tensor data for input tensor 'IN' for model 'm' of type 'INT64', expected datatype "
                "'INT32'"
            ),
        ),
        ([tensor(), tensor()], "[request id: <id_unknown>] input 'IN' already exists in request"),
        (
            [tensor(contents=INTS, parameters={"shared_memory_region": REGION, "shared_memory_byte_size": SIZE})],
            "unexpected 'content' provided when using shared memory for input tensor 'IN' for model 'm'",
        ),
        (
            [tensor(parameters={"shared_memory_region": {"int64_param": 1}})],
            "invalid value type for 'shared_memory_region' parameter for tensor 'IN', expected string_param.",
        ),
        (
            [tensor(parameters={"shared_memory_region": {}})],
            "invalid value type for 'shared_memory_region' parameter for tensor 'IN', expected string_param.",
        ),
        (
            [tensor(parameters={"shared_memory_region": REGION})],
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'IN'",
        ),
        (
            [tensor(parameters={"shared_memory_region": REGION, "shared_memory_byte_size": REGION})],
            "invalid value type for 'shared_memory_byte_size' parameter for tensor 'IN', expected int64_param.",
        ),
        (
            [tensor(parameters={"shared_memory_byte_size": SIZE})],
            "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'IN'",
        ),
        (
            [tensor(parameters={"shared_memory_offset": SIZE})],
            "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'IN'",
        ),
    ],
)
def test_bad_inputs(inputs: list[dict[str, Any]], text: str) -> None:
    assert refused({"model_name": "m", "inputs": inputs}) == text


def test_contents_beside_raw_contents() -> None:
    text = refused({"model_name": "m", "inputs": [tensor(contents=INTS)], "raw_input_contents": ["AAAA"]})
    assert text == "contents field must not be specified when using raw_input_contents for 'IN' for model 'm'"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"classification": {"string_param": "2"}},
            "invalid value type for 'classification' parameter, expected int64_param",
        ),
        ({"classification": {"int64_param": 0}}, "invalid value for 'classification' parameter, expected >= 0"),
        ({"classification": {"int64_param": -1}}, "invalid value for 'classification' parameter, expected >= 0"),
        (
            {"classification": {"int64_param": 1}, "shared_memory_region": REGION, "shared_memory_byte_size": SIZE},
            "output can't set both 'shared_memory_region' and 'classification'",
        ),
        (
            {"shared_memory_region": REGION},
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'OUT'",
        ),
    ],
)
def test_bad_outputs(parameters: dict[str, Any], text: str) -> None:
    assert refused({"outputs": [{"name": "OUT", "parameters": parameters}]}) == text


def test_outputs() -> None:
    outputs = decode({
        "outputs": [
            {"name": "A"},
            {"name": "B", "parameters": {"classification": {"int64_param": 2}, "binary_data": {}}},
            {"name": "C", "parameters": {"shared_memory_region": REGION, "shared_memory_byte_size": SIZE}},
        ]
    }).outputs  # fmt: skip
    assert [(output.name, output.classes, output.shared_memory) for output in outputs] == [
        ("A", 0, None), ("B", 2, None), ("C", 0, SharedMemoryRef("r", 8, 0)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"sequence_id": {"bool_param": True}},
            "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
        ),
        ({"sequence_id": {}}, "invalid value type for 'sequence_id' parameter, expected int64_param or string_param."),
        (
            {"sequence_start": {"int64_param": 1}},
            "invalid value type for 'sequence_start' parameter, expected bool_param.",
        ),
        (
            {"sequence_end": {"string_param": "1"}},
            "invalid value type for 'sequence_end' parameter, expected bool_param.",
        ),
        (
            {"priority": {"string_param": "1"}},
            "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
        ),
        ({"priority": {"int64_param": -1}}, "invalid value for 'priority', expected value >= 0."),
        ({"timeout": {"uint64_param": 1}}, "invalid value type for 'timeout' parameter, expected int64_param."),
        (
            {"triton_enable_empty_final_response": {"string_param": "true"}},
            "invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param.",
        ),
        (
            {"triton_x": {"string_param": "x"}},
            (
                "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting "
                "with 'triton_' are allowed: triton_enable_empty_final_response"
            ),
        ),
        (
            {"x": {"uint64_param": 1}},
            "invalid value type for 'x' parameter, expected int64_param, bool_param, or string_param.",
        ),
        ({"x": {}}, "invalid value type for 'x' parameter, expected int64_param, bool_param, or string_param."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], text: str) -> None:
    assert refused({"parameters": parameters}) == text


def test_parameters() -> None:
    request = decode({
        "parameters": {
            "sequence_id": {"int64_param": -1}, "sequence_start": {"bool_param": True},
            "priority": {"uint64_param": 7}, "timeout": {"int64_param": -1},
            "number": {"int64_param": -5}, "flag": {"bool_param": True}, "text": {"string_param": "x"},
            "real": {"double_param": 1.5},
        }
    })  # fmt: skip
    assert request.sequence == SequenceId(2**64 - 1, start=True)
    assert (request.priority, request.timeout_us) == (7, 2**64 - 1)
    assert request.parameters == {"number": -5, "flag": True, "text": "x", "real": 1.5}


def test_a_text_is_another_sequence_id_than_a_number() -> None:
    assert decode({"parameters": {"sequence_id": {"string_param": "1"}}}).sequence == SequenceId("1")
    assert decode({"parameters": {"sequence_end": {"bool_param": True}}}).sequence == SequenceId(0, end=True)
    assert decode({}).sequence is None


@pytest.mark.parametrize("wanted", [True, False])
def test_the_wish_for_an_empty_final_response_is_no_parameter_of_the_model(wanted: bool) -> None:
    message = ModelInferRequest()
    message.parameters["triton_enable_empty_final_response"].bool_param = wanted
    decoded = InferMessage(MessageBytes(message.SerializeToString()))
    assert decoded.request(1, NoSink()).parameters == {}
    assert decoded.wants_empty_final is wanted


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x0a\x02\xff\xff", b"\xff" * 10_000])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(InternalError, match=r"^Unable to parse request$"):
        InferMessage(MessageBytes(data))


@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_a_flood_of_tensors_is_refused(what: str) -> None:
    text = refused({"model_name": "m", what: [{"name": str(number)} for number in range(20_000)]})
    assert text == f"the request to model 'm' has 20000 {what}, at most 16384 are accepted"


def test_numbers_by_the_megabyte_are_called_slow() -> None:
    small, large = ModelInferRequest(), ModelInferRequest()
    small.inputs.add(name="IN").contents.fp32_contents.extend([1.0])
    large.inputs.add(name="IN").contents.fp32_contents.extend(np.zeros(300_000, np.float32))
    raw = ModelInferRequest(raw_input_contents=[bytes(2_000_000)])
    assert not InferMessage(MessageBytes(small.SerializeToString())).is_slow
    assert InferMessage(MessageBytes(large.SerializeToString())).is_slow
    assert not InferMessage(MessageBytes(raw.SerializeToString())).is_slow


def test_a_shape_of_many_sizes_is_refused_before_they_are_multiplied() -> None:
    document = {"model_name": "m", "inputs": [tensor(shape=[2**62] * 100_000)], "raw_input_contents": ["AAAA"]}
    assert refused(document) == (
        "[request id: <id_unknown>] invalid shape for input 'IN': it has 100000 dimensions, at most 1024 are accepted"
    )


def test_an_output_may_be_requested_once_unless_old_rules_hold() -> None:
    message = ModelInferRequest(model_name="m", id="7")
    for _ in range(2):
        message.outputs.add(name="O")
    data = MessageBytes(message.SerializeToString())
    with pytest.raises(InvalidArgumentError) as caught:
        InferMessage(data).request(3, NoSink())
    assert caught.value.message == "[request id: 7] output 'O' already exists in request"
    assert len(InferMessage(data, newest_rules=False).request(3, NoSink()).outputs) == 1
