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
    frame = ends.pass_on(packer)
    first, second = ends.messages.request_layouts(frame, 2)
    found = first.read(frame.body)
    assert (found.id, found.output_names, found.flags) == (id_, tuple(names), flags)
    assert (found.timeout_us, found.correlation_id, found.parameters) == (timeout_us, correlation_id, parameters)
    inputs = [place.read(frame.body, ends.theirs.borrow) for place in first.inputs]
    assert [tensor.as_numpy().tolist() for tensor in inputs] == [[0, 1, 2]] * 2
    assert second.read(frame.body) == RequestRecord("next")


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
    frame = ends.pass_on(packer)
    first, second = ends.messages.response_layouts(frame, 2)
    found = first.read(frame.body, ends.theirs.borrow)
    assert (found.status, found.message, found.code, found.parameters) == (status, message, code, parameters)
    assert [tensor.shape for tensor in found.outputs] == [(index,) for index in range(outputs)]
    assert second.status == Status.NOTHING


def test_messages_with_bytes_that_are_no_text_pass() -> None:
    """`os.fsdecode` gives such strings for odd file names, which end up in tracebacks."""
    ends = ChannelEnds()
    packer = ends.packer()
    pack_response(packer, ResponseRecord(Status.ERROR, message="bad \udcff name"))
    assert ends.messages.response(ends.pass_on(packer), ends.theirs.borrow).message == "bad \ufffd name"


def test_inputs_may_get_another_shape_on_the_way() -> None:
    ends = ChannelEnds()
    packer = ends.packer()
    record = RequestRecord(inputs=[Tensor.from_numpy("A", np.zeros((2, 3))), Tensor.from_numpy("B", np.zeros(4))])
    pack_request(packer, record, {"A": lambda shape: (shape[0] * shape[1],)})
    assert [tensor.shape for tensor in ends.messages.request(ends.pass_on(packer), ends.theirs.borrow).inputs] == [
        (6,),
        (4,),
    ]


def test_requests_alike_are_read_by_the_same_layout() -> None:
    ends = ChannelEnds()
    found = []
    for number in (1, 2):
        packer = ends.packer()
        inputs = [Tensor.from_numpy("A", np.full(size, number)) for size in (3, 10_000)]
        record = RequestRecord(str(number), inputs, ("X",), 1, number, number, {"parameters": {"a": number}})
        pack_request(packer, record)
        frame = ends.pass_on(packer)
        found.append(ends.messages.request_layouts(frame, 1))
        read = ends.messages.request(frame, ends.theirs.borrow)
        assert (read.id, read.timeout_us, read.correlation_id) == (str(number), number, number)
        assert read.parameters == {"a": number}
        assert [tensor.as_numpy()[-1] for tensor in read.inputs] == [number] * 2
    assert found[0] is found[1]


def test_layouts_are_not_remembered_without_end() -> None:
    ends = ChannelEnds()
    for size in range(1, 5000):
        packer = ends.packer()
        pack_response(packer, ResponseRecord(message="x" * size))
        assert len(ends.messages.response(ends.pass_on(packer), ends.theirs.borrow).message) == size
    assert len(ends.messages._responses._known) <= 2048
