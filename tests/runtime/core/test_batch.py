"""Batches: rows gathered and cut again, whatever their shapes, and one final answer for each request."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from charonia_runtime.core.config import TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, UnsupportedError
from tests.support.batches import a_batch
from tests.support.configs import a_config, a_tensor

NUMERIC = [kind for kind in DataType if kind.item_size and kind is not DataType.BF16]


def config(datatype=DataType.INT32, *dims, **changes):
    fields = {"inputs": (a_tensor("IN", datatype, *dims),), "outputs": (a_tensor("OUT", datatype, *dims),)}
    return a_config("m", **fields | changes)


@given(st.data(), st.sampled_from([*NUMERIC, DataType.BYTES]), st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_what_is_gathered_is_cut_again(data, datatype, sizes):
    tail = data.draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    if datatype is DataType.BYTES:
        inputs = [np.full((size, *tail), f"row of {size}".encode(), dtype=object) for size in sizes]
    else:
        inputs = [data.draw(arrays.arrays(datatype.numpy_dtype, (size, *tail))) for size in sizes]
    batch = a_batch(config(datatype, *[-1] * len(tail), max_batch_size=99), *({"IN": array} for array in inputs))
    gathered = batch.gather("IN")
    assert gathered.shape == (sum(sizes), *tail)
    batch.scatter({"OUT": gathered})
    batch.flush()
    for index, array in enumerate(inputs):
        answer = batch.arrays_of(index)["OUT"]
        assert answer.dtype == array.dtype
        assert answer.shape == array.shape
        assert answer.tobytes() == array.tobytes() if datatype is not DataType.BYTES else (answer == array).all()


def test_a_single_input_is_not_copied():
    batch = a_batch(config(DataType.INT32, 2), {"IN": np.array([[1, 2]], np.int32)})
    assert np.shares_memory(batch.gather("IN"), batch.requests[0].inputs["IN"].as_numpy())


def test_outputs_are_cut_without_a_copy():
    batch = a_batch(config(DataType.INT32, 2), *[{"IN": np.zeros((1, 2), np.int32)}] * 2)
    output = np.arange(4, dtype=np.int32).reshape(2, 2)
    batch.scatter({"OUT": output})
    batch.flush()
    assert np.shares_memory(batch.arrays_of(1)["OUT"], output)


def test_absent_optional_input():
    assert a_batch(config(), {"IN": np.zeros((1, 16), np.int32)}).gather("OTHER") is None


def test_ragged_inputs_are_gathered_flat():
    ragged = config(inputs=(a_tensor("IN", DataType.INT32, -1, allow_ragged=True),))
    batch = a_batch(ragged, {"IN": np.array([[1, 2]], np.int32)}, {"IN": np.array([[3]], np.int32)})
    assert batch.gather("IN").tolist() == [1, 2, 3]


def test_reshapes_there_and_back():
    spec = {"dims": (-1, 2), "reshape": (2, -1)}
    reshaped = a_config(
        "m",
        inputs=(TensorSpec("IN", DataType.INT32, **spec),),
        outputs=(TensorSpec("OUT", DataType.INT32, **spec),),
    )
    array = np.arange(12, dtype=np.int32).reshape(2, 3, 2)
    batch = a_batch(reshaped, {"IN": array[:1]}, {"IN": array[1:]})
    gathered = batch.gather("IN")
    assert gathered.shape == (2, 2, 3)
    batch.scatter({"OUT": gathered})
    batch.flush()
    assert batch.arrays_of(1)["OUT"].tolist() == array[1:].tolist()


def test_output_that_does_not_fit_its_reshape():
    reshaped = config(outputs=(TensorSpec("OUT", DataType.INT32, (2,), (1, 2)),))
    batch = a_batch(reshaped, {"IN": np.zeros((1, 16), np.int32)})
    with pytest.raises(InternalError, match="output tensor shape does not match size of output for 'OUT'"):
        batch.scatter({"OUT": np.zeros((1, 1, 3), np.int32)})


def test_requests_whose_rows_are_missing_get_an_error():
    batch = a_batch(config(), *[{"IN": np.zeros((1, 16), np.int32)}] * 2)
    batch.scatter({"OUT": np.zeros((1, 16), np.int32)})
    batch.flush()
    assert batch.arrays_of(0)["OUT"].shape == (1, 16)
    with pytest.raises(UnsupportedError) as caught:
        batch.arrays_of(1)
    assert caught.value.message == (
        "[request id: <id_unknown>] failed to split the output tensor 'OUT' in responses: expected batch size of at "
        "least 2 in model output, got 1"
    )


def test_scalar_output_of_a_batching_model():
    batch = a_batch(config(), {"IN": np.zeros((1, 16), np.int32)})
    batch.scatter({"OUT": np.int32(3) * np.ones((), np.int32)})
    batch.flush()
    with pytest.raises(UnsupportedError, match="got 0"):
        batch.arrays_of(0)


def test_only_requested_outputs_are_sent():
    batch = a_batch(config(), {"IN": np.zeros((1, 16), np.int32)}, outputs=["B", "MISSING"])
    batch.scatter({"A": np.zeros((1, 1)), "B": np.zeros((1, 1))})
    batch.flush()
    assert list(batch.arrays_of(0)) == ["B"]


def test_raw_bits_of_bf16_keep_their_type():
    bits = np.array([[0x3F80]], np.uint16)
    batch = a_batch(config(DataType.BF16, 1), {"IN": bits})
    batch.scatter({"OUT": batch.gather("IN")})
    batch.flush()
    (response,) = batch.responses_to(0)
    assert response.outputs[0].datatype is DataType.BF16


def test_a_second_final_answer_is_refused():
    batch = a_batch(config(), {"IN": np.zeros((1, 16), np.int32)})
    assert batch.unanswered == [0]
    batch.respond(0, [], final=False)
    batch.end(0)
    assert batch.complete
    with pytest.raises(InternalError):
        batch.respond(0, [])
    batch.fail(InternalError("not for those with an answer"))
    batch.flush()
    assert [response.final for response in batch.responses_to(0)] == [False, True]


def test_errors_count_as_failures_unless_the_model_chose_them():
    batch = a_batch(config(), *[{"IN": np.zeros((1, 16), np.int32)}] * 2)
    batch.respond_error(0, InternalError("a"), chosen_by_model=True)
    batch.fail(InternalError("b"))
    batch.flush()
    assert [batch.responses_to(index)[0].failed for index in range(2)] == [False, True]


def test_times_that_were_not_marked_are_filled_in():
    batch = a_batch(config(), {"IN": np.zeros((1, 16), np.int32)})
    batch.mark_end()
    times = batch.times()
    assert times.start == times.inputs_ready <= times.outputs_ready == times.end
