import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.errors import ErrorCode
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.messages import (
    RequestRecord,
    ResponseRecord,
    Status,
    pack_request,
    pack_response,
    unpack_request,
    unpack_response,
)
from tests.support.channel_ends import ChannelEnds

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
PARAMETERS = st.dictionaries(TEXTS, st.one_of(st.booleans(), st.integers(-(1 << 63), 1 << 63), TEXTS), max_size=3)


@given(
    st.one_of(TEXTS, TEXTS.map(lambda text: text * 2000)),
    st.lists(NAMES, max_size=4),
    st.integers(0, 3),
    st.integers(0, (1 << 64) - 1),
    st.one_of(st.integers(0, (1 << 64) - 1), TEXTS),
    PARAMETERS,
)
def test_requests_come_out_as_they_went_in(  # noqa: PLR0917
    id_: str, names: list[str], flags: int, timeout_us: int, correlation_id: int | str, parameters: dict[str, object]
) -> None:
    rest = {"parameters": parameters} if parameters else {}
    tensor = Tensor.from_numpy("IN", np.arange(3))
    sent = RequestRecord(id_, [tensor, tensor], tuple(names), flags, timeout_us, correlation_id, rest)
    ends = ChannelEnds()
    packer = ends.packer()
    pack_request(packer, sent)
    pack_request(packer, RequestRecord("next"))
    unpacker = ends.pass_on(packer)
    found = unpack_request(unpacker)
    assert (found.id, found.output_names, found.flags) == (id_, tuple(names), flags)
    assert (found.timeout_us, found.correlation_id, found.parameters) == (timeout_us, correlation_id, parameters)
    assert [tensor.as_numpy().tolist() for tensor in found.inputs] == [[0, 1, 2]] * 2
    assert unpack_request(unpacker) == RequestRecord("next")


@given(st.sampled_from(list(Status)), st.integers(0, 3), TEXTS, st.sampled_from(list(ErrorCode)), PARAMETERS)
def test_responses_come_out_as_they_went_in(
    status: Status, outputs: int, message: str, code: ErrorCode, parameters: dict[str, object]
) -> None:
    tensors = [Tensor.from_numpy("OUT", np.arange(index)) for index in range(outputs)]
    sent = ResponseRecord(status, tensors, message, code, parameters)  # type: ignore[arg-type]
    ends = ChannelEnds()
    packer = ends.packer()
    pack_response(packer, sent)
    pack_response(packer, ResponseRecord(Status.NOTHING))
    unpacker = ends.pass_on(packer)
    found = unpack_response(unpacker)
    assert (found.status, found.message, found.code, found.parameters) == (status, message, code, parameters)
    assert [tensor.shape for tensor in found.outputs] == [(index,) for index in range(outputs)]
    assert unpack_response(unpacker).status == Status.NOTHING


def test_messages_with_bytes_that_are_no_text_pass() -> None:
    """`os.fsdecode` gives such strings for odd file names, which end up in tracebacks."""
    ends = ChannelEnds()
    packer = ends.packer()
    pack_response(packer, ResponseRecord(Status.ERROR, message="bad \udcff name"))
    assert unpack_response(ends.pass_on(packer)).message == "bad \ufffd name"


def test_inputs_may_get_another_shape_on_the_way() -> None:
    ends = ChannelEnds()
    packer = ends.packer()
    record = RequestRecord(inputs=[Tensor.from_numpy("A", np.zeros((2, 3))), Tensor.from_numpy("B", np.zeros(4))])
    pack_request(packer, record, {"A": lambda shape: (shape[0] * shape[1],)})
    assert [tensor.shape for tensor in unpack_request(ends.pass_on(packer)).inputs] == [(6,), (4,)]
