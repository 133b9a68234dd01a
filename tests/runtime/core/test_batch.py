"""Batches: rows go in together and come back to their owners, and every request is answered once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.batch import Answers, Batch
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, UnavailableError, UnsupportedError
from tests.support.batches import RecordedBatch, a_batch, a_request
from tests.support.configs import a_config, a_tensor

Array = np.ndarray[Any, Any]


def rows(count: int, first: int = 0, width: int = 16, dtype: str = "int32") -> Array:
    return np.arange(first, first + count * width).astype(dtype).reshape(count, width)


def config_of(**changes: Any) -> Any:
    return a_config(inputs=(a_tensor("IN"),), outputs=(a_tensor("OUT"),), **changes)


def flushed(batch: RecordedBatch) -> RecordedBatch:
    batch.flush()
    return batch


# --- inputs ---


@pytest.mark.parametrize("datatype", [DataType.INT32, DataType.FP64, DataType.BOOL, DataType.BF16, DataType.BYTES])
def test_rows_are_gathered_in_the_order_of_requests(datatype: DataType) -> None:
    config = a_config(inputs=(a_tensor("IN", datatype, 2),), outputs=())
    parts = [np.array([[i, i + 1]] * (i + 1)).astype(datatype.numpy_dtype) for i in range(3)]
    if datatype is DataType.BYTES:
        parts = [np.array([[b"%d" % cell for cell in row] for row in part], dtype=object) for part in parts]
    batch = a_batch(config, *({"IN": part} for part in parts))
    gathered = batch.gather("IN")
    assert batch.rows == 6
    assert gathered is not None
    assert np.array_equal(gathered, np.concatenate(parts))


def test_a_single_request_is_not_copied() -> None:
    batch = a_batch(config_of(), {"IN": rows(2)})
    gathered = batch.gather("IN")
    assert gathered is not None
    assert np.shares_memory(gathered, np.frombuffer(batch.requests[0].inputs["IN"].buffer, np.uint8))


def test_a_missing_optional_input_is_none() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)}, {"IN": rows(1)})
    assert batch.gather("OTHER") is None


@pytest.mark.parametrize("counts", [(1,), (1, 2)])
def test_zero_sized_rows_are_gathered(counts: tuple[int, ...]) -> None:
    config = a_config(inputs=(a_tensor("IN", DataType.FP32, -1),), outputs=())
    batch = a_batch(config, *({"IN": np.zeros((count, 0), np.float32)} for count in counts))
    gathered = batch.gather("IN")
    assert gathered is not None
    assert gathered.shape == (sum(counts), 0)


@pytest.mark.parametrize(
    ("dims", "reshape", "sent", "seen"),
    [
        ((2, 2), (4,), (3, 2, 2), (3, 4)),
        ((1,), (), (3, 1), (3,)),
        ((-1, 2), (-1, 1, 2), (3, 5, 2), (3, 5, 1, 2)),
        ((-1, 2, -1), (-1, 1, 2, -1), (3, 4, 2, 6), (3, 4, 1, 2, 6)),
        ((-1,), (-1,), (3, 0), (3, 0)),
    ],
)
@pytest.mark.parametrize("requests", [1, 2])
def test_models_see_the_reshape_and_clients_the_dims(
    dims: tuple[int, ...], reshape: tuple[int, ...], sent: tuple[int, ...], seen: tuple[int, ...], requests: int
) -> None:
    config = a_config(
        inputs=(a_tensor("IN", DataType.INT32, *dims, reshape=reshape),),
        outputs=(a_tensor("OUT", DataType.INT32, *dims, reshape=reshape),),
    )
    array = np.arange(np.prod(sent), dtype=np.int32).reshape(sent)
    batch = a_batch(config, *({"IN": array + index} for index in range(requests)))
    gathered = batch.gather("IN")
    assert gathered is not None
    assert gathered.shape == (seen[0] * requests, *seen[1:])
    batch.scatter({"OUT": gathered})
    flushed(batch)
    for index in range(requests):
        assert np.array_equal(batch.arrays_of(index)["OUT"], array + index)


def test_reshape_without_batching() -> None:
    config = a_config(
        max_batch_size=0,
        inputs=(a_tensor("IN", DataType.INT32, 2, 2, reshape=(4,)),),
        outputs=(a_tensor("OUT", DataType.INT32, 4, reshape=(2, 2)),),
    )
    batch = a_batch(config, {"IN": rows(2, width=2)})
    gathered = batch.gather("IN")
    assert gathered is not None
    assert gathered.shape == (4,)
    batch.scatter({"OUT": gathered.reshape(2, 2)})
    assert flushed(batch).arrays_of(0)["OUT"].tolist() == [0, 1, 2, 3]


# --- answers ---


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.sampled_from(["int32", "float64", "object"]))
def test_every_request_gets_its_own_rows(counts: list[int], dtype: str) -> None:
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    parts = [rows(count, start * 16) for count, start in zip(counts, starts, strict=True)]
    batch = a_batch(config_of(max_batch_size=100), *({"IN": part} for part in parts))
    gathered = batch.gather("IN")
    assert gathered is not None
    output = gathered.astype(dtype) if dtype != "object" else np.vectorize(lambda cell: b"%d" % cell, "O")(gathered)
    batch.scatter({"OUT": output})
    assert batch.complete
    flushed(batch)
    for index, part in enumerate(parts):
        array = batch.arrays_of(index)["OUT"]
        assert array.shape == part.shape
        assert [int(cell) for cell in array.reshape(-1)] == part.reshape(-1).tolist()


def test_scattered_arrays_need_not_lie_in_order() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)}, {"IN": rows(2)})
    output = np.asfortranarray(rows(3))
    batch.scatter({"OUT": output})
    flushed(batch)
    assert np.array_equal(batch.arrays_of(0)["OUT"], output[:1])
    assert np.array_equal(batch.arrays_of(1)["OUT"], output[1:])


def test_only_requested_outputs_are_sent() -> None:
    config = config_of()
    batch = RecordedBatch(
        config, [a_request(config, {"IN": rows(1)}, outputs=["B"]), a_request(config, {"IN": rows(1)})]
    )
    batch.scatter({"A": rows(2), "B": rows(2)})
    flushed(batch)
    assert [list(batch.arrays_of(index)) for index in (0, 1)] == [["B"], ["A", "B"]]


def test_missing_rows_fail_only_their_owners() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)}, {"IN": rows(2)})
    batch.scatter({"OUT": rows(2)})
    flushed(batch)
    assert batch.arrays_of(0)["OUT"].shape == (1, 16)
    (response,) = batch.responses_to(1)
    assert isinstance(response.error, UnsupportedError)
    assert response.error.message == (
        "[request id: <id_unknown>] failed to split the output tensor 'OUT' in responses: expected batch size of at "
        "least 3 in model output, got 2"
    )
    assert response.final


def test_an_output_without_dimensions_has_no_rows() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)})
    batch.scatter({"OUT": np.array(5)})
    (response,) = flushed(batch).responses_to(0)
    assert isinstance(response.error, UnsupportedError)
    assert response.error.message.endswith("expected batch size of at least 1 in model output, got 0")


def test_an_output_that_cannot_be_reshaped_back() -> None:
    config = a_config(inputs=(a_tensor("IN"),), outputs=(a_tensor("OUT", DataType.INT32, 2, 2, reshape=(4,)),))
    batch = a_batch(config, {"IN": rows(1)})
    with pytest.raises(InternalError) as raised:
        batch.scatter({"OUT": rows(1, width=3)})
    assert raised.value.message == "output tensor shape does not match size of output for 'OUT'"
    batch.fail(raised.value)
    assert batch.complete


def test_bf16_outputs_are_raw_bits() -> None:
    config = a_config(inputs=(a_tensor("IN"),), outputs=(a_tensor("OUT", DataType.BF16, 16),))
    batch = a_batch(config, {"IN": rows(1)})
    batch.scatter({"OUT": rows(1, dtype="uint16")})
    ((_, response),) = flushed(batch).answers
    assert response.outputs[0].datatype is DataType.BF16


def test_failing_answers_only_the_unanswered() -> None:
    batch = a_batch(config_of(), *({"IN": rows(1)} for _ in range(3)))
    batch.respond(1, [])
    assert (batch.unanswered, batch.complete) == ([0, 2], False)
    batch.fail(UnavailableError("gone"))
    batch.fail(UnavailableError("again"))
    assert (batch.unanswered, batch.complete) == ([], True)
    flushed(batch)
    errors = [[response.error and response.error.message for response in batch.responses_to(i)] for i in range(3)]
    assert errors == [["gone"], [None], ["gone"]]


def test_answering_twice_is_the_models_mistake() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)})
    batch.respond(0, [])
    for answer_again in (
        lambda: batch.respond(0, []),
        lambda: batch.respond_error(0, UnavailableError("x")),
        lambda: batch.end(0),
    ):
        with pytest.raises(InternalError, match="a response was sent after the final response of its request"):
            answer_again()
    assert len(flushed(batch).answers) == 1


def test_streams_end_once() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)})
    batch.respond(0, [], final=False)
    batch.respond_error(0, UnavailableError("a bad token"), final=False)
    assert not batch.complete
    batch.end(0)
    assert batch.complete
    flushed(batch)
    assert [(r.final, r.flag_only, r.error is None) for r in batch.responses_to(0)] == [
        (False, False, True),
        (False, False, False),
        (True, True, True),
    ]


def test_nothing_is_delivered_before_a_flush_nor_twice() -> None:
    delivered: list[Answers] = []
    config = config_of()
    batch = Batch(config, 3, [a_request(config, {"IN": rows(1)}), a_request(config, {"IN": rows(1)})], delivered.append)
    batch.respond(0, [], final=False)
    assert delivered == []
    batch.flush()
    batch.flush()
    batch.respond(0, [])
    batch.respond(1, [])
    batch.flush()
    assert [len(answers) for answers in delivered] == [1, 2]
    assert all(response.model_version == 3 for answers in delivered for _, response in answers)


def test_the_clock_has_no_holes() -> None:
    batch = a_batch(config_of(), {"IN": rows(1)})
    unmarked = batch.times()
    assert unmarked.start == unmarked.inputs_ready <= unmarked.outputs_ready == unmarked.end
    batch.mark_inputs_ready()
    batch.mark_outputs_ready()
    batch.mark_end()
    marked = batch.times()
    assert marked.start <= marked.inputs_ready <= marked.outputs_ready <= marked.end
    assert batch.times() == marked
