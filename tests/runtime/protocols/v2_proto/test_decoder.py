"""The memory of inference requests: whatever came before, a message means what it says."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelInferRequest

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.protocols.v2_proto.decoder import InferDecoder, KnownMessage
from charonia_runtime.protocols.v2_proto.infer import InferMessage, MessageBytes


class NoSink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError("nothing answers here")


SINK = NoSink()


def infer_message(identifier: str = "", *tensors: bytes, **fields: Any) -> ModelInferRequest:
    message = ModelInferRequest(model_name="m", id=identifier, **fields)
    for number, raw in enumerate(tensors):
        message.inputs.add(name=f"IN{number}", datatype="UINT8", shape=[len(raw)])
        message.raw_input_contents.append(raw)
    return message


def outcome(message: Any) -> Any:
    """All that can be told of a message: its request and what is beside it, or its error."""
    try:
        decoded = message()
        request = decoded.request(2, SINK)
    except InferenceError as error:
        return type(error), error.message
    return request, decoded.model_name, decoded.version_text, decoded.id, decoded.wants_empty_final, decoded.is_slow


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Messages that are often alike: few names, few sizes; some are broken."""
    some = st.sampled_from
    message = infer_message(
        draw(some(["", "7", "long" * 40, "é"])),
        *(bytes(draw(some([0, 1, 4, 200]))) for _ in range(draw(some([0, 1, 2])))),
        model_version=draw(some(["", "1", "23"])),
    )
    if draw(st.booleans()):
        message.parameters[draw(some(["priority", "timeout", "sequence_id"]))].int64_param = draw(some([0, 1]))
    if draw(st.booleans()):
        message.parameters["triton_enable_empty_final_response"].bool_param = draw(st.booleans())
    if draw(st.booleans()):
        output = message.outputs.add(name="OUT")
        if draw(st.booleans()):
            output.parameters["shared_memory_region"].string_param = "r"
            output.parameters["shared_memory_byte_size"].int64_param = 8
    if message.inputs and draw(st.booleans()):
        message.inputs[0].parameters["shared_memory_region"].string_param = "r"
        message.inputs[0].parameters["shared_memory_byte_size"].int64_param = draw(some([8, 9]))
    if message.inputs and draw(some([True, False, False])):
        message.inputs[0].contents.uint_contents.append(draw(some([1, 2])))
    data = bytearray(message.SerializeToString())
    data += draw(some([b"", b"", b"\x3a\x01a", b"\x0a\x01n", b"\x40\x01", b"\x1a\x01\xff", b"\x3a"]))
    if data and draw(some([True, False, False])):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(st.lists(messages(), max_size=20), st.booleans())
@example([b"", b"\x0a", b"\x0a\x01m\x12", b"\x0a\x01m\x1a", b"\x0a\x01m\x12\x85"], False)
def test_memory_changes_nothing(sent: list[bytes], views: bool) -> None:
    decoder = InferDecoder()
    for data in sent + sent:
        given_data = memoryview(data) if views else data
        found = outcome(lambda given_data=given_data: decoder.read(given_data))
        assert found == outcome(lambda data=data: InferMessage(MessageBytes(data)))


def known(first: ModelInferRequest, second: ModelInferRequest) -> InferenceRequest | None:
    """The request of the second message if it was known from the first."""
    decoder = InferDecoder()
    decoder.read(first.SerializeToString()).request(1, SINK)
    message = decoder.read(second.SerializeToString())
    return message.request(1, SINK) if isinstance(message, KnownMessage) else None


@pytest.mark.parametrize("size", [1, 100, 20_000, 3_000_000])
def test_likes_are_known_whatever_their_ids_and_tensors(size: int) -> None:
    request = known(infer_message("1", bytes(size), b"a"), infer_message("xyz", b"z" * size, b"b"))
    assert request is not None
    assert request.id == "xyz"
    assert [bytes(tensor.buffer) for tensor in request.inputs.values()] == [b"z" * size, b"b"]


def test_requests_share_nothing_that_they_could_change() -> None:
    message = infer_message("1", b"a")
    message.parameters["x"].int64_param = 1
    decoder = InferDecoder()
    first, second, third = (decoder.read(message.SerializeToString()).request(1, SINK) for _ in range(3))
    first.parameters["first"] = 1
    second.parameters["second"] = 2
    assert third.parameters == {"x": 1}
    assert second.inputs is not third.inputs


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (infer_message("", b"a"), infer_message("", b"ab")),
        (infer_message("", b"a"), infer_message("", b"a", model_version="1")),
        (infer_message("", b"aa", b"a"), infer_message("", b"a", b"aa")),
        (infer_message("", b"a"), infer_message("x" * 200, b"a")),
    ],
)
def test_others_are_not_known(first: ModelInferRequest, second: ModelInferRequest) -> None:
    assert known(first, second) is None


def test_steps_of_sequences_are_not_remembered() -> None:
    """Their ids would push out what is worth it."""
    message = infer_message("", b"a")
    message.parameters["sequence_id"].int64_param = 5
    assert known(message, message) is None


def test_a_flood_of_different_messages_is_forgotten() -> None:
    decoder = InferDecoder()
    first = infer_message("", b"a").SerializeToString()
    decoder.read(first).request(1, SINK)
    for size in range(2000):
        decoder.read(infer_message("", bytes(size)).SerializeToString()).request(1, SINK)
    assert not isinstance(decoder.read(first), KnownMessage)
    assert isinstance(decoder.read(infer_message("", bytes(1999)).SerializeToString()), KnownMessage)
