"""The generate extension's schema conversion."""

import json
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.protocols.generate import decode_generate, encode_generate

LIMIT = 10_000
CONFIG = ModelConfig(
    "m",
    inputs=(
        TensorSpec("TEXT", DataType.BYTES, (1,)),
        TensorSpec("NUMBERS", DataType.INT32, (-1,)),
        TensorSpec("PAIRS", DataType.FP32, (-1, 2)),
        TensorSpec("CUBE", DataType.INT8, (-1, 2, -1)),
    ),
)


class Sink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError


def decode(document: Any, config: ModelConfig = CONFIG) -> InferenceRequest:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return decode_generate(text, config, ANY_VERSION, Sink(), LIMIT)


def test_inputs_become_tensors_and_the_rest_parameters() -> None:
    request = decode({
        "id": "g", "TEXT": "hello", "NUMBERS": [1, 2, 3], "PAIRS": [1, 2, 3, 4], "sequence_id": 4, "triton_x": "y",
        "parameters": {"stop": True, "temperature": 0.5},
    })  # fmt: skip
    assert request.id == "g"
    assert {name: (tensor.shape, tensor.as_numpy().tolist()) for name, tensor in request.inputs.items()} == {
        "TEXT": ((1,), [b"hello"]), "NUMBERS": ((3,), [1, 2, 3]), "PAIRS": ((2, 2), [[1.0, 2.0], [3.0, 4.0]]),
    }  # fmt: skip
    assert request.parameters == {"id": "g", "sequence_id": 4, "triton_x": "y", "stop": True, "temperature": 0.5}
    assert request.sequence is None


def test_shapes() -> None:
    """What is left goes into the innermost variable dimension; a batch dimension is variable, too."""
    assert decode({"CUBE": [1, 2, 3, 4, 5, 6]}).inputs["CUBE"].shape == (1, 2, 3)
    assert decode({"NUMBERS": []}).inputs["NUMBERS"].shape == (0,)
    assert decode({"NUMBERS": 5}).inputs["NUMBERS"].shape == (1,)
    batching = ModelConfig("b", max_batch_size=8, inputs=(TensorSpec("A", DataType.INT32, (4,)),))
    assert decode({"A": [1, 2, 3, 4, 5, 6, 7, 8]}, batching).inputs["A"].shape == (2, 4)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"", "failed to parse the request JSON buffer: The document is empty. at 0"),
        ([1], "attempt to get members for non-object"),
        ({"id": 5}, "Unable to parse 'id': attempt to access JSON non-string as string"),
        (b'{"TEXT":"a","TEXT":"b"}', "[request id: <id_unknown>] input 'TEXT' already exists in request"),
        ({"TEXT": ["a", "b"]}, "The schema can not convert input 'TEXT' to tensor with proper shape"),
        ({"TEXT": []}, "The schema can not convert input 'TEXT' to tensor with proper shape"),
        ({"PAIRS": [1, 2, 3]}, "The schema can not convert input 'PAIRS' to tensor with proper shape"),
        ({"TEXT": None}, "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
        ({"TEXT": {"a": 1}}, "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
        ({"NUMBERS": [[1, 2], [3, 4]]}, "Unable to parse 'data': Shape does not match true shape of 'data' field"),
        ({"NUMBERS": "a"}, "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
        ({"x": [1]}, "parameter 'x' has invalid type. It should be either 'int', 'bool', or 'string'."),
        ({"parameters": 1},
         "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object"),
        ({"parameters": {"x": [1]}},
         ("Converting keyword: 'parameters': parameter 'x' has invalid type. It should be either 'int', 'bool', or "
         "'string'.")),
        ({"parameters": {"NUMBERS": "a"}},
         ("Converting keyword: 'parameters': Unable to parse 'data': attempt to access JSON non-signed-integer as "
         "signed-integer")),
        ({"NUMBERS": list(range(2501))},
         ("request size of 0 bytes with input 'NUMBERS' of size 10004 bytes exceeds the maximum allowed input size of "
         "10000. Use --http-max-input-size to increase the limit.")),
        ({"TEXT": "é" * 2000, "parameters": {"NUMBERS": list(range(1500))}},
         ("Converting keyword: 'parameters': request size of 4004 bytes with input 'NUMBERS' of size 6000 bytes exceeds "
         "the maximum allowed input size of 10000. Use --http-max-input-size to increase the limit.")),
    ],
)  # fmt: skip
def test_faults(document: Any, text: str) -> None:
    with pytest.raises(InferenceError) as caught:
        decode(document)
    assert caught.value.message == text


def test_the_text_around_the_inputs_does_not_count() -> None:
    request = decode({"NUMBERS": [1000] * 2500, "remark": "x" * 20_000})
    assert request.inputs["NUMBERS"].byte_size == LIMIT


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (b'{"a":1,"a":2}', {"a": 1}),
        (b'{"parameters":{"a":1,"a":2}}', {"a": 1}),
        (b'{"parameters":{"a":1},"parameters":{"b":2}}', {"a": 1}),
        (b'{"a":1,"parameters":{"a":2}}', {"a": 2}),
        (b'{"parameters":{"a":2},"a":1}', {"a": 1}),
    ],
)
def test_of_a_key_that_stands_twice_the_first_value_counts(text: bytes, parameters: dict[str, int]) -> None:
    """Answers of Triton 2.51; across the two levels the later key counts."""
    assert decode(text).parameters == parameters


def test_an_input_called_parameters() -> None:
    config = ModelConfig("p", inputs=(TensorSpec("parameters", DataType.INT32, (1,)),))
    with pytest.raises(InferenceError, match="Keyword 'parameters' for nested schema also given as input tensor name"):
        decode({"parameters": 1}, config)


def test_responses_are_sorted_objects() -> None:
    outputs = {
        "b": np.array([1, 2], np.int32), "A": np.array([b"one"], object), "EMPTY": np.zeros((0, 2), np.float32),
        "z": np.array([0.5]),
    }  # fmt: skip
    response = InferenceResponse(
        "m", 3, "id", [Tensor.from_numpy(name, array) for name, array in outputs.items()], {"final": True}
    )
    assert encode_generate(response) == (
        b'{"A":"one","EMPTY":[],"b":[1,2],"final":true,"id":"id","model_name":"m","model_version":"3","z":0.5}'
    )
