"""Inference requests and responses as JSON with binary tensors: raw requests, answers, and the way there and back."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.protocols import json_text
from charonia_runtime.protocols.v2_json import RequestDecoder, decode_raw_request, encode_response
from charonia_runtime.protocols.v2_json.data import encode_data
from charonia_runtime.protocols.v2_json.header import OutputForm
from tests.support.fake_server import echo_config

LIMIT = 1_000_000
NUMERIC = [member for member in DataType if member.item_size and member is not DataType.BF16]
JSON_TYPES = [member for member in NUMERIC if member is not DataType.FP16]


class Sink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError


def decode(text: bytes, binary: bytes) -> InferenceRequest:
    return RequestDecoder(LIMIT).decode(text, memoryview(binary), "simple", ANY_VERSION, Sink())[0]


# --- raw requests ---


def raw(body: bytes, config: ModelConfig) -> Tensor:
    request, form = decode_raw_request(memoryview(body), config, ANY_VERSION, Sink(), LIMIT)
    assert form.default
    return request.inputs["INPUT"]


def test_raw_requests() -> None:
    assert raw(bytes(16), echo_config(dims=(4,))).shape == (4,)
    assert raw(bytes(16), echo_config(dims=(4,), max_batch_size=2)).shape == (1, 4)
    assert raw(bytes(24), echo_config(dims=(-1, 2))).shape == (3, 2)
    text = raw(b"hello", echo_config(datatype=DataType.BYTES, dims=(1,)))
    assert text.as_numpy().tolist() == [b"hello"]


@pytest.mark.parametrize(
    ("body", "config", "text"),
    [
        (b"", ModelConfig("m", inputs=(TensorSpec("A", DataType.INT8, (1,)), TensorSpec("B", DataType.INT8, (1,)))),
         "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model configuration"),
        (b"", echo_config("m", dims=(-1, -1)),
         ("The shape of the raw input 'INPUT' can not be deduced because there are more than one variable-sized "
         "dimension")),
        (bytes(12), echo_config("m", dims=(4,)),
         "input byte size mismatch for input 'raw_input' for model 'm'. Expected 16, got 12"),
        (bytes(13), echo_config("m", dims=(-1,)),
         "input byte size mismatch for input 'raw_input' for model 'm'. Expected 12, got 13"),
        (b"a", echo_config("m", DataType.BYTES, (-1,)),
         "For BYTE datatype raw input 'INPUT', the model must have input shape [1]"),
        (b"a", echo_config("m", DataType.BYTES, (2,)),
         "For BYTE datatype raw input 'INPUT', the model must have input shape [1]"),
    ],
)  # fmt: skip
def test_raw_requests_that_do_not_fit(body: bytes, config: ModelConfig, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        raw(body, config)
    assert caught.value.message == f"[request id: <id_unknown>] {text}"


def test_raw_requests_are_limited() -> None:
    with pytest.raises(InvalidArgumentError, match="Raw input has a byte_size"):
        raw(bytes(LIMIT + 1), echo_config())


# --- responses ---


def a_response(*outputs: Tensor, **changes: Any) -> InferenceResponse:
    return InferenceResponse("simple", 1, outputs=list(outputs), **changes)


def test_a_json_response() -> None:
    response = a_response(
        Tensor.from_numpy("X", np.array([[1, 2]], np.int32)),
        Tensor("Y", DataType.FP32, (4,), SharedMemoryRef("r", 16)),
        id='é"',
        parameters={"a": 1, "b": "x", "c": True, "d": 0.5},
    )
    text, buffers = encode_response(response, OutputForm())
    assert text.decode() == (
        '{"id":"é\\"","model_name":"simple","model_version":"1","parameters":{"a":1,"b":"x","c":true,"d":0.5},'
        '"outputs":[{"name":"X","datatype":"INT32","shape":[1,2],"data":[1,2]},'
        '{"name":"Y","datatype":"FP32","shape":[4]}]}'
    )
    assert buffers == []


def test_a_binary_response_copies_nothing() -> None:
    array = np.arange(4, dtype=np.int32)
    empty = Tensor.from_numpy("EMPTY", np.zeros((0, 2), np.float32))
    response = a_response(Tensor.from_numpy("X", array), Tensor.from_numpy("Y", array), empty)
    text, buffers = encode_response(response, OutputForm(default=True, listed={"Y": False}))
    assert text == (
        b'{"model_name":"simple","model_version":"1","outputs":['
        b'{"name":"X","datatype":"INT32","shape":[4],"parameters":{"binary_data_size":16}},'
        b'{"name":"Y","datatype":"INT32","shape":[4],"data":[0,1,2,3]},'
        b'{"name":"EMPTY","datatype":"FP32","shape":[0,2],"parameters":{"binary_data_size":0}}]}'
    )
    assert len(buffers) == 1
    assert np.shares_memory(np.frombuffer(buffers[0], np.int32), array)


def test_bytes_that_are_not_utf8_pass_through_json() -> None:
    text, _ = encode_response(a_response(Tensor.from_numpy("X", np.array([b"\xff\xfe"], object))), OutputForm())
    assert b'"data":["\xff\xfe"]' in text


@pytest.mark.parametrize("datatype", [DataType.FP16, DataType.BF16])
def test_half_floats_have_no_json(datatype: DataType) -> None:
    tensor = Tensor("X", datatype, (1,), memoryview(b"\0\0"))
    with pytest.raises(InvalidArgumentError, match=f"sending {datatype.wire_name} data via JSON is not supported"):
        encode_response(a_response(tensor), OutputForm())


# --- both ways ---


@given(st.data(), st.booleans())
def test_tensors_survive_both_ways(data: st.DataObject, binary: bool) -> None:
    datatype = data.draw(st.sampled_from(NUMERIC if binary else JSON_TYPES))
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0))
    array = data.draw(arrays.arrays(datatype.numpy_dtype, shape))
    assert_survives(Tensor.from_numpy("INPUT", array), binary=binary)


@given(arrays.arrays(object, st.integers(0, 5), elements=st.binary(max_size=8)), st.booleans())
def test_bytes_survive_both_ways(array: np.ndarray[Any, Any], binary: bool) -> None:
    assert_survives(Tensor.from_numpy("INPUT", array), binary=binary)


def assert_survives(tensor: Tensor, *, binary: bool) -> None:
    text, buffers = encode_response(a_response(tensor), OutputForm(default=binary))
    document = json_text.read(text)
    parts = b"".join(buffers)
    request = decode(b'{"inputs":' + text[text.index(b'"outputs":') + len(b'"outputs":') :], parts)
    returned = request.inputs["INPUT"]
    assert (returned.datatype, returned.shape) == (tensor.datatype, tensor.shape)
    assert document["outputs"][0]["shape"] == list(tensor.shape)
    if tensor.datatype is DataType.BYTES or binary:
        assert bytes(returned.buffer) == bytes(tensor.buffer)
    else:
        np.testing.assert_array_equal(returned.as_numpy(), tensor.as_numpy())


@pytest.mark.parametrize("count", [0, 1, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("datatype", [DataType.FP32, DataType.UINT8, DataType.BOOL, DataType.BYTES])
def test_long_arrays_are_written_in_parts_that_join_without_a_seam(datatype, count):
    if datatype is DataType.BYTES:
        array = np.array([b'"%d' % index for index in range(count)], object)
        expected = [f'"{index}' for index in range(count)]
    else:
        array = (np.arange(count) % 2).astype(datatype.numpy_dtype)
        expected = array.tolist()
    assert json.loads(encode_data(Tensor.from_numpy("OUT", array, datatype))) == expected


def test_nothing_more_is_written_when_nobody_wants_it():
    array = np.arange(100_000, dtype=np.int32)
    wishes = iter([True, True, False])
    with pytest.raises(CancelledError):
        encode_data(Tensor.from_numpy("OUT", array), lambda: next(wishes))
