"""Encoding of answers, read back by protobuf."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import InferParameter, ModelInferResponse, ModelStreamInferResponse

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import InferenceResponse, ParameterValue
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.protocols.v2_proto.answers import (
    encode_response,
    encode_stream_end,
    encode_stream_error,
    encode_stream_rejection,
    encode_stream_response,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
TENSORS = st.builds(
    Tensor,
    NAMES,
    st.sampled_from([member for member in DataType if member is not DataType.INVALID]),
    st.lists(st.integers(0, 2**62), max_size=3).map(tuple),
    st.one_of(st.binary(max_size=400).map(memoryview), st.just(SharedMemoryRef("r", 8))),
)
VALUES = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), NAMES)
RESPONSES = st.builds(
    InferenceResponse,
    NAMES,
    st.integers(0, 2**40),
    NAMES,
    st.lists(TENSORS, max_size=4),
    st.dictionaries(NAMES, VALUES, max_size=3),
    final=st.booleans(),
)


def value_of(parameter: InferParameter) -> ParameterValue:
    kind = parameter.WhichOneof("parameter_choice")
    assert kind is not None
    value: ParameterValue = getattr(parameter, kind)
    return value


def check(message: ModelInferResponse, response: InferenceResponse) -> None:
    assert message.model_name == response.model_name
    assert message.model_version == str(response.model_version)
    assert message.id == response.id
    assert [(output.name, output.datatype, tuple(output.shape)) for output in message.outputs] == [
        (tensor.name, tensor.datatype.wire_name, tensor.shape) for tensor in response.outputs
    ]
    assert list(message.raw_output_contents) == [
        b"" if isinstance(tensor.data, SharedMemoryRef) else bytes(tensor.data) for tensor in response.outputs
    ]


@given(RESPONSES)
def test_a_response_is_read_back(response: InferenceResponse) -> None:
    message = ModelInferResponse.FromString(b"".join(encode_response(response)))
    check(message, response)
    found = {name: value_of(parameter) for name, parameter in message.parameters.items()}
    assert found == response.parameters
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in response.parameters.items()
    }


@given(RESPONSES)
def test_a_stream_response_says_whether_it_is_the_last(response: InferenceResponse) -> None:
    message = ModelStreamInferResponse.FromString(b"".join(encode_stream_response(response)))
    assert not message.error_message
    check(message.infer_response, response)
    assert message.infer_response.parameters["triton_final_response"].bool_param is response.final
    assert len(message.infer_response.parameters) == len(response.parameters) + 1


def test_large_tensors_and_other_item_sizes() -> None:
    array = np.arange(200_000, dtype=np.float64)
    response = InferenceResponse("m", 1, outputs=[Tensor("OUT", DataType.FP64, array.shape, array.data)])
    message = ModelInferResponse.FromString(b"".join(encode_response(response)))
    assert np.array_equal(np.frombuffer(message.raw_output_contents[0]), array)
    streamed = ModelStreamInferResponse.FromString(b"".join(encode_stream_response(response)))
    assert streamed.infer_response.raw_output_contents[0] == array.tobytes()


def test_errors_of_a_stream_repeat_the_request() -> None:
    message = ModelStreamInferResponse.FromString(encode_stream_error("bad", "7", "m", "", final=False))
    assert message.error_message == "bad"
    answer = message.infer_response
    assert (answer.id, answer.model_name, answer.model_version) == ("7", "m", "")
    assert answer.parameters["triton_final_response"].bool_param is False


def test_rejections_in_a_stream_have_only_the_id() -> None:
    message = ModelStreamInferResponse.FromString(encode_stream_rejection("bad", ""))
    assert message.error_message == "bad"
    assert message.HasField("infer_response")
    assert message.infer_response == ModelInferResponse()
    named = ModelStreamInferResponse.FromString(encode_stream_rejection("bad", "7"))
    assert named.infer_response == ModelInferResponse(id="7")


def test_the_end_of_a_decoupled_answer() -> None:
    message = ModelStreamInferResponse.FromString(encode_stream_end("7", "m", "2"))
    expected = ModelInferResponse(id="7", model_name="m", model_version="2")
    expected.parameters["triton_final_response"].bool_param = True
    assert message.infer_response == expected


@pytest.mark.parametrize("encode", [encode_response, encode_stream_response])
def test_tensors_that_no_message_can_hold(encode: Callable[[InferenceResponse], bytes]) -> None:
    huge = memoryview(np.broadcast_to(np.uint8(0), (1 << 20,)))
    outputs = [Tensor(str(number), DataType.UINT8, (1 << 20,), huge) for number in range(2048)]
    with pytest.raises(InternalError, match="holds 2147483648 bytes of tensors"):
        encode(InferenceResponse("m", 1, outputs=outputs))
