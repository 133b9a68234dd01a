"""Messages of millions of fields are refused before protobuf reads them; large honest ones are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2 import ModelInferRequest

from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.protocols.v2_proto import parse
from charonia_runtime.protocols.v2_proto.decoder import InferDecoder, SlowMessage
from charonia_runtime.protocols.v2_proto.infer import InferMessage
from charonia_runtime.protocols.v2_proto.limits import MAXIMUM_CONTENTS, MAXIMUM_FIELDS
from tests.support.hostile_bodies import long_messages


@pytest.mark.parametrize("message", list(long_messages(1_100_000)), ids=lambda message: message.name)
def test_what_would_take_gigabytes_is_refused_unread(message) -> None:
    class Unread:
        DESCRIPTOR = getattr(service_pb2, message.message).DESCRIPTOR

    with pytest.raises(InvalidArgumentError, match="the request has more than"):
        parse(Unread, message.data)


def test_large_messages_of_few_fields_are_read() -> None:
    message = ModelInferRequest(model_name="m")
    numbers = message.inputs.add(name="N", datatype="FP32", shape=[1_500_000])
    numbers.contents.fp32_contents.extend([0.5] * 1_500_000)
    texts = message.inputs.add(name="T", datatype="BYTES", shape=[100_000])
    texts.contents.bytes_contents.extend([b"text"] * 100_000)
    assert parse(ModelInferRequest, message.SerializeToString()) == message


def test_limits_are_what_they_say() -> None:
    field = b"\x2a\x00"
    assert len(parse(ModelInferRequest, field * MAXIMUM_FIELDS).inputs) == MAXIMUM_FIELDS
    with pytest.raises(InvalidArgumentError, match=f"more than {MAXIMUM_FIELDS} fields"):
        parse(ModelInferRequest, field * (MAXIMUM_FIELDS + 1))
    assert MAXIMUM_CONTENTS > MAXIMUM_FIELDS


@given(st.binary(max_size=200))
def test_malformed_messages_are_left_to_the_parser(junk: bytes) -> None:
    """Junk behind a large well-formed part never raises anything else."""
    message = ModelInferRequest(model_name="m" * 70_000).SerializeToString() + junk
    try:
        parse(ModelInferRequest, message)
    except InternalError as error:
        assert error.message == "Unable to parse request"


def test_only_messages_of_many_bytes_beside_raw_tensors_are_read_in_threads() -> None:
    decoder = InferDecoder()
    raw = ModelInferRequest(model_name="m", raw_input_contents=[bytes(1 << 20)])
    raw.inputs.add(name="A", datatype="UINT8", shape=[1 << 20])
    assert isinstance(decoder.read(raw.SerializeToString()), InferMessage)
    written = ModelInferRequest(model_name="m")
    written.inputs.add(name="A", datatype="FP32", shape=[100_000]).contents.fp32_contents.extend([0.5] * 100_000)
    slow = decoder.read(written.SerializeToString())
    assert isinstance(slow, SlowMessage)
    assert slow.read().model_name == "m"
