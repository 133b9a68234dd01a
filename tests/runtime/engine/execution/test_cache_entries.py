from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.request import InferenceResponse, RequestedOutput
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.execution.cache_entries import key_of, pack_response, unpack_response
from tests.support.requests import a_request

INPUT = np.arange(6, dtype=np.int32)


def key(inputs=None, outputs=(), name="simple", version=1, **fields):
    request = a_request(inputs=inputs or {"A": INPUT}, outputs=list(outputs), **fields)
    return key_of(request, name, version)


def test_the_same_request_has_the_same_key_whoever_sends_it():
    assert key() == key(id="other", priority=3, parameters={"a": 1})
    assert key({"A": INPUT, "B": INPUT}) == key({"B": INPUT, "A": INPUT})
    outputs = [RequestedOutput("X"), RequestedOutput("Y")]
    assert key(outputs=outputs) == key(outputs=outputs[::-1])


@pytest.mark.parametrize(
    "other",
    [
        {"inputs": {"A": INPUT.reshape(2, 3)}},
        {"inputs": {"A": INPUT.view(np.uint32)}},
        {"inputs": {"A": INPUT + 1}},
        {"inputs": {"B": INPUT}},
        {"inputs": {"A": INPUT[:3], "B": INPUT[3:]}},
        {"outputs": [RequestedOutput("X")]},
        {"outputs": [RequestedOutput("X", classes=1)]},
        {"name": "other"},
        {"version": 2},
    ],
)
def test_whatever_may_change_the_answer_changes_the_key(other):
    assert key(**other) != key()


def test_bytes_do_not_move_from_one_input_to_another():
    assert key({"A": INPUT[:2], "B": INPUT[2:]}) != key({"A": INPUT[:3], "B": INPUT[3:]})


a_value = st.one_of(st.booleans(), st.integers(-(2**63), 2**63), st.text(st.characters(exclude_categories=["Cs"])))
an_output = st.tuples(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.sampled_from(list(DataType)),
    st.lists(st.integers(0, 5), max_size=3),
    st.binary(max_size=50),
)


@given(st.lists(an_output, max_size=4), st.dictionaries(st.text("abc"), a_value, max_size=3))
def test_responses_come_back_as_they_were(outputs, parameters):
    tensors = [Tensor(name, datatype, tuple(shape), memoryview(data)) for name, datatype, shape, data in outputs]
    response = InferenceResponse("simple", 1, "id", tensors, parameters)

    unpacked = unpack_response(b"".join(pack_response(a_request(), response)))

    assert unpacked == (tensors, parameters)


def test_bytes_in_the_clients_memory_are_kept_as_well():
    memory = memoryview(bytearray(b"abcdefgh"))
    ref = SharedMemoryRef("region", 4)
    request = a_request(outputs=[RequestedOutput("X", shared_memory=ref, memory=memory)])
    response = InferenceResponse("simple", 1, outputs=[Tensor("X", DataType.UINT8, (4,), ref)])

    (tensor,), _ = unpack_response(b"".join(pack_response(request, response)))

    assert bytes(tensor.buffer) == b"abcd"
    assert pack_response(replace(request, outputs=[]), response) is None


@pytest.mark.parametrize("value", [2**65, "\ud800"])
def test_what_cannot_be_written_is_not_kept(value):
    assert pack_response(a_request(), InferenceResponse("simple", 1, parameters={"a": value})) is None


@given(st.binary(max_size=60))
def test_what_is_no_entry_is_refused(entry):
    with pytest.raises(ValueError, match=r".+"):
        unpack_response(entry)
