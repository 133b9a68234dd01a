"""Cutting fields out of messages, against protobuf's own parser."""

from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelInferRequest

from charonia_runtime.protocols.v2_proto.wire import cut, prefix, varint

RAW_CONTENTS = 0x3A


@given(st.integers(0, 2**64 - 1))
def test_varint_is_what_protobuf_writes(value: int) -> None:
    message = ModelInferRequest()
    message.parameters["x"].uint64_param = value
    assert message.SerializeToString().endswith(b"\x28" + varint(value))


def test_prefix_holds_key_and_length() -> None:
    assert prefix(0x32, 0) == b"\x32\x00"
    assert prefix(0x32, 300) == b"\x32\xac\x02"


@given(
    st.lists(st.binary(max_size=300), max_size=5),
    st.text(max_size=20),
    st.lists(st.text(max_size=5), max_size=4),
)
def test_cut_takes_raw_contents_and_leaves_the_rest(raw: list[bytes], name: str, inputs: list[str]) -> None:
    message = ModelInferRequest(model_name=name, raw_input_contents=raw)
    for tensor in inputs:
        message.inputs.add(name=tensor, shape=[1, 2])
    pieces = cut(message.SerializeToString(), RAW_CONTENTS)
    assert pieces is not None
    rest, contents = pieces
    assert [bytes(content) for content in contents] == raw
    del message.raw_input_contents[:]
    assert ModelInferRequest.FromString(rest) == message


@given(st.binary(max_size=60))
def test_cut_of_any_bytes_agrees_with_protobuf_or_leaves_it_to_it(data: bytes) -> None:
    pieces = cut(data, RAW_CONTENTS)
    if pieces is None:
        return
    try:
        whole = ModelInferRequest.FromString(data)
    except Exception:  # noqa: BLE001 whatever protobuf refuses must stay refused
        rest_is_refused = False
        try:
            ModelInferRequest.FromString(pieces[0])
        except Exception:  # noqa: BLE001
            rest_is_refused = True
        assert rest_is_refused
    else:
        assert list(whole.raw_input_contents) == [bytes(content) for content in pieces[1]]


def test_cut_skips_every_fixed_size_field() -> None:
    unknown = b"\x79" + bytes(8) + b"\x7d" + bytes(4) + b"\x78\x96\x01"
    assert cut(unknown + b"\x3a\x01x" + unknown, RAW_CONTENTS) == (unknown + unknown, [memoryview(b"x")])


def test_cut_leaves_groups_and_high_field_numbers_to_protobuf() -> None:
    assert cut(b"\x0b\x0c", RAW_CONTENTS) is None
    assert cut(b"\x80\x01\x00", RAW_CONTENTS) is None


def test_cut_gives_up_on_a_flood_of_fields() -> None:
    assert cut(b"\x3a\x00" * 100_000, RAW_CONTENTS) is None


def test_cut_refuses_lengths_beyond_the_end() -> None:
    assert cut(b"\x3a\x05abc", RAW_CONTENTS) is None
    assert cut(b"\x3a" + b"\xff" * 11, RAW_CONTENTS) is None
