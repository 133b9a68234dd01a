"""Requests and responses come out of a frame as they went in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ERROR_CLASSES, ErrorCode, InternalError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, RequestedOutput, SequenceId
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.ipc.frames import Frame
from charonia_runtime.remote.messages import RequestReader, ResponseReader, add_request, add_response
from tests.support.channel_ends import ChannelEnds
from tests.support.requests import RecordingSink

NUMBERS = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
PLACES = st.builds(SharedMemoryRef, TEXTS, NUMBERS, NUMBERS)
VALUES = st.one_of(st.booleans(), st.integers(-(2**63), 2**64), st.floats(allow_nan=False), TEXTS)
PARAMETERS = st.dictionaries(TEXTS, VALUES, max_size=3)
SIZES = st.sampled_from([0, 1, 7, 100, (1 << 14) + 4, 70_000])
VERSIONS = st.integers(-1, 2**62)


@st.composite
def tensors(draw):
    size = draw(SIZES)
    data = draw(st.one_of(st.just(memoryview(np.arange(size, dtype=np.uint8).tobytes())), PLACES))
    return Tensor(draw(NAMES), draw(st.sampled_from(list(DataType))), tuple(draw(st.lists(VERSIONS, max_size=3))), data)


OUTPUTS = st.builds(RequestedOutput, NAMES, st.integers(0, 9), st.one_of(st.none(), PLACES))
SEQUENCES = st.builds(SequenceId, st.one_of(NUMBERS, TEXTS), st.booleans(), st.booleans())
REQUESTS = st.builds(
    InferenceRequest,
    NAMES,
    st.lists(tensors(), max_size=3).map(lambda found: {tensor.name: tensor for tensor in found}),
    st.just(RecordingSink()),
    VERSIONS,
    TEXTS,
    st.lists(OUTPUTS, max_size=3),
    PARAMETERS,
    st.one_of(st.none(), SEQUENCES),
    NUMBERS,
    NUMBERS,
    flow=st.sampled_from([None, object()]),
)
ERRORS = st.builds(lambda code, text: ERROR_CLASSES[code](text), st.sampled_from(list(ErrorCode)), TEXTS)
RESPONSES = st.builds(
    InferenceResponse, NAMES, VERSIONS, TEXTS, st.lists(tensors(), max_size=3), PARAMETERS, final=st.booleans(),
    flag_only=st.booleans(), failed=st.booleans(), refused=st.booleans(),
)  # fmt: skip
FAILURES = st.builds(InferenceResponse, NAMES, VERSIONS, TEXTS, parameters=PARAMETERS, error=ERRORS)


def passed_on(ends: ChannelEnds, packer, flags: int = 0) -> Frame:
    return ends.pass_on(packer)._replace(flags=flags)


def content(tensor: Tensor):
    data = tensor.data
    return (
        tensor.name, tensor.datatype, tensor.shape, data if isinstance(data, SharedMemoryRef) else bytes(data)
    )  # fmt: skip


@given(st.lists(REQUESTS, min_size=1, max_size=3), st.one_of(st.none(), st.just({"parent": None, "notes": [["A", 1]]})))
def test_requests(sent, trace):
    """The same reader reads several: it knows the records of earlier ones."""
    ends = ChannelEnds()
    reader = RequestReader(ends._received, ends.theirs)
    for request in (*sent, *sent):
        packer = ends.packer()
        add_request(packer, request, trace)
        sink = RecordingSink()
        found, is_held_back, notes = reader.read(passed_on(ends, packer), sink)

        assert notes == trace
        assert is_held_back is (request.flow is not None)
        assert found.sink is sink
        for name in (
            "model_name", "model_version", "id", "outputs", "parameters", "sequence", "priority", "timeout_us"
        ):  # fmt: skip
            assert getattr(found, name) == getattr(request, name)
        assert [content(one) for one in found.inputs.values()] == [content(one) for one in request.inputs.values()]


@given(st.lists(st.one_of(RESPONSES, FAILURES), min_size=1, max_size=3), TEXTS)
def test_responses(sent, request_id):
    ends = ChannelEnds()
    reader = ResponseReader(ends._received, ends.theirs)
    for response in (*sent, *sent):
        packer = ends.packer()
        flags = add_response(packer, response, request_id)
        found = reader.read(passed_on(ends, packer, flags), request_id)

        for name in ("model_name", "model_version", "id", "parameters", "final", "flag_only", "failed", "refused"):
            assert getattr(found, name) == getattr(response, name)
        assert [content(one) for one in found.outputs] == [content(one) for one in response.outputs]
        assert type(found.error) is type(response.error)
        assert getattr(found.error, "message", "") == getattr(response.error, "message", "")


def test_what_no_frame_can_hold_is_an_error_of_the_request():
    packer = ChannelEnds().packer()
    tensor = Tensor("N" * 40_000, DataType.UINT8, (1,), memoryview(b"1"))
    with pytest.raises(InternalError, match="too long"):
        add_request(packer, InferenceRequest("m", {tensor.name: tensor}, RecordingSink()), None)
