"""Batches through an engine: shapes, profiles, shape tensors, memory on both sides."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.config import BatchInput, BatchOutput, Optimization
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.scheduling import SequenceBatching, SequenceState
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.engine.execution.answers import write
from tests.support.batches import RecordedBatch, a_batch, a_request
from tests.support.configs import a_tensor
from tests.support.cuda_runtime import FakeGpus, cudaError_t
from tests.support.loaded_models import execute
from tests.support.tensorrt_models import Loaded, error_of, plan_config
from tests.support.tensorrt_runtime import FakeTensorrt, a_plan, an_input, an_output

DOUBLE = a_plan([an_input("IN", -1, 4)], [an_output("OUT", -1, 4)], "double")
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)

pytestmark = pytest.mark.usefixtures("machine")


def context_of(loaded: Loaded, profile: int = 0) -> Any:
    return loaded.instance._contexts[profile]._context


# --- numbers ---


@pytest.mark.parametrize("spinning", [True, False])
def test_each_request_gets_its_rows(tmp_path: Path, spinning: bool) -> None:
    loaded = Loaded(tmp_path, DOUBLE, plan_config(optimization=Optimization(busy_wait_events=spinning)))
    batch = loaded.run({"IN": ROWS[:1]}, {"IN": ROWS[1:]})
    np.testing.assert_array_equal(batch.arrays_of(0)["OUT"], ROWS[:1] * 2)
    np.testing.assert_array_equal(batch.arrays_of(1)["OUT"], ROWS[1:] * 2)


def test_answers_are_not_written_to_again(tmp_path: Path) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    first = loaded.run({"IN": ROWS})
    for _ in range(5):
        loaded.run({"IN": -ROWS})
    np.testing.assert_array_equal(first.arrays_of(0)["OUT"], ROWS * 2)
    loaded.close()
    np.testing.assert_array_equal(first.arrays_of(0)["OUT"], ROWS * 2)


def test_a_closed_model_gives_everything_back(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE, plan_config(optimization=Optimization(cuda_graphs=True)))
    for _ in range(4):
        batch = loaded.run({"IN": ROWS})
    loaded.close()
    del batch, loaded
    gc.collect()
    assert gpus.in_use() == gpus.in_use(pinned=True) == 0
    assert gpus.graphs == {}
    assert gpus.events == {}
    assert all(stream.destroyed for stream in gpus.streams.values())


def test_memory_is_used_again(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    for _ in range(3):
        loaded.run({"IN": ROWS})
    before = len(gpus.allocations)
    for _ in range(50):
        loaded.run({"IN": ROWS})
    assert len(gpus.allocations) == before


def test_scalars_have_the_configuration_s_shape(tmp_path: Path) -> None:
    plan = a_plan([an_input("IN")], [an_output("OUT")], "double")
    loaded = Loaded(tmp_path, plan)
    assert [spec.dims for spec in (*loaded.config.inputs, *loaded.config.outputs)] == [(1,), (1,)]
    assert loaded.run({"IN": np.array([3], np.float32)}).arrays_of(0)["OUT"].tolist() == [6]


def test_a_reshape_is_undone_on_the_way_back(tmp_path: Path) -> None:
    config = plan_config(
        max_batch_size=8,
        inputs=(a_tensor("IN", DataType.FP32, 2, 2, reshape=(4,)),),
        outputs=(a_tensor("OUT", DataType.FP32, 2, 2, reshape=(4,)),),
    )
    sent = ROWS.reshape(3, 2, 2)
    np.testing.assert_array_equal(Loaded(tmp_path, DOUBLE, config).run({"IN": sent}).arrays_of(0)["OUT"], sent * 2)


def test_only_what_is_asked_for_leaves_the_gpu(tmp_path: Path, gpus: FakeGpus) -> None:
    plan = a_plan(
        [an_input("IN0", -1, 4), an_input("IN1", -1, 4)], [an_output("OUT0", -1, 4), an_output("OUT1", -1, 4)]
    )
    loaded = Loaded(tmp_path, plan)
    assert list(loaded.run({"IN0": ROWS, "IN1": -ROWS}, outputs=["OUT1"]).arrays_of(0)) == ["OUT1"]
    assert gpus.in_use(pinned=True) == 3  # two inputs, one output


def test_ragged_inputs_with_their_bounds(tmp_path: Path) -> None:
    plan = a_plan(
        [
            an_input("IN0", -1, profiles=[[[1], [4], [64]]]),
            an_input("IN1", -1, datatype="INT32", profiles=[[[1], [4], [64]]]),
        ],
        [an_output("OUT0", -1), an_output("OUT1", -1, datatype="INT32")],
    )
    config = plan_config(
        max_batch_size=4,
        inputs=(a_tensor("IN0", DataType.FP32, -1, allow_ragged=True),),
        outputs=(a_tensor("OUT0", DataType.FP32, -1), a_tensor("OUT1", DataType.INT32, 1, reshape=())),
        batch_inputs=(BatchInput("BATCH_ACCUMULATED_ELEMENT_COUNT", ("IN1",), DataType.INT32, ("IN0",)),),
        batch_outputs=(BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", ("OUT0",), ("IN0",)),),
    )
    loaded = Loaded(tmp_path, plan, config)
    batch = loaded.run({"IN0": np.ones((1, 2), np.float32)}, {"IN0": np.full((1, 3), 2, np.float32)})
    assert [batch.arrays_of(index)["OUT0"].tolist() for index in range(2)] == [[[1, 1]], [[2, 2, 2]]]
    assert [batch.arrays_of(index)["OUT1"].tolist() for index in range(2)] == [[[2]], [[5]]]


def test_states_of_sequences(tmp_path: Path) -> None:
    plan = a_plan(
        [an_input("IN", -1, 2), an_input("STATE", -1, 2)], [an_output("OUT", -1, 2), an_output("NEXT", -1, 2)],
        "accumulate",
    )  # fmt: skip
    states = (SequenceState("STATE", "NEXT", DataType.FP32, (2,)),)
    loaded = Loaded(tmp_path, plan, plan_config(max_batch_size=4, scheduling=SequenceBatching(states=states)))
    assert [spec.name for spec in (*loaded.config.inputs, *loaded.config.outputs)] == ["IN", "OUT"]
    ones = np.ones((1, 2), np.float32)
    batch = loaded.run({"IN": ones, "STATE": ones * 5}, {"IN": ones, "STATE": ones * 7}, outputs=["OUT"])
    assert batch.states is not None
    assert [taken["STATE"].as_numpy().tolist() for taken in batch.states] == [[[6, 6]], [[8, 8]]]
    assert list(batch.arrays_of(1)) == ["OUT"]


# --- profiles ---

PROFILES = [[[1, 1], [1, 4], [2, 64]], [[1, 1], [8, 4], [8, 64]], [[1, 100], [1, 200], [1, 300]]]
MANY = a_plan([an_input("IN", -1, -1, profiles=PROFILES)], [an_output("OUT", -1, -1)], "double")


@pytest.mark.parametrize(("rows", "width", "profile"), [(1, 4, 0), (2, 4, 0), (3, 4, 1), (8, 64, 1), (1, 150, 2)])
def test_the_profile_that_was_tuned_for_the_likest(tmp_path: Path, rows: int, width: int, profile: int) -> None:
    loaded = Loaded(tmp_path, MANY, plan_config(profiles=("0", "1", "2")))
    assert loaded.config.max_batch_size == 8
    sent = np.ones((rows, width), np.float32)
    np.testing.assert_array_equal(loaded.run({"IN": sent}).arrays_of(0)["OUT"], sent * 2)
    assert [context_of(loaded, index).executions for index in range(3)] == [int(index == profile) for index in range(3)]


@pytest.mark.parametrize(
    ("profiles", "sent", "text"),
    [
        (("0",), (2, 65), "model expected the shape of dimension 1 to be between 1 and 64 but received 65"),
        ((), (2, 0), "model expected the shape of dimension 1 to be between 1 and 64 but received 0"),
        (("2",), (1, 99), "model expected the shape of dimension 1 to be between 100 and 300 but received 99"),
        (("0", "1"), (1, 99), "model expected the shape of dimension 1 to be between 1 and 64 but received 99"),
    ],
)
def test_what_no_profile_allows(tmp_path: Path, profiles: tuple[str, ...], sent: tuple[int, ...], text: str) -> None:
    loaded = Loaded(tmp_path, MANY, plan_config(profiles=profiles))
    error = error_of(loaded.run({"IN": np.ones(sent, np.float32)}))
    assert isinstance(error, InvalidArgumentError)
    assert error.message == f"request specifies invalid shape for input 'IN' for m_0. Error details: {text}"


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"^Can not set the specified optimization profile 3\[1\] for m_0. Expected optimization profile index "
        r"range 0-2$",
    ):
        Loaded(tmp_path, MANY, plan_config(profiles=("0", "3")))


# --- shape tensors and outputs whose shapes depend on data ---


def test_shape_tensors_without_batching(tmp_path: Path) -> None:
    loaded = Loaded(tmp_path, RESIZE)
    assert [spec.is_shape_tensor for spec in loaded.config.inputs] == [False, True]
    batch = loaded.run({"IN": np.arange(4, dtype=np.float32), "SIZES": np.array([2, 3], np.int32)})
    assert batch.arrays_of(0)["OUT"].tolist() == [[0, 1, 2], [3, 0, 1]]
    assert batch.arrays_of(0)["SIZES_OUT"].tolist() == [2, 3]


RESIZE = a_plan(
    [
        an_input("IN", 4),
        an_input("SIZES", 2, datatype="INT32", values=[[[1, 1], [2, 2], [8, 8]]]),
    ],
    [an_output("OUT", -1, -1), an_output("SIZES_OUT", 2, datatype="INT64", shape_tensor=True)],
    "resize",
)


def test_values_outside_the_profile(tmp_path: Path) -> None:
    loaded = Loaded(tmp_path, RESIZE)
    error = error_of(loaded.run({"IN": np.zeros(4, np.float32), "SIZES": np.array([2, 9], np.int32)}))
    assert error.message == (
        "request specifies invalid value for shape tensor input 'SIZES' for m_0. Error details: model expected the "
        "value 1 to be between 1 and 8 but received 9"
    )


def test_the_batch_size_is_the_first_value(tmp_path: Path) -> None:
    plan = a_plan(
        [
            an_input("IN", -1, 2),
            an_input("SIZES", 2, datatype="INT64", values=[[[1, 1], [2, 2], [6, 8]]]),
        ],
        [an_output("OUT", -1, -1), an_output("SIZES_OUT", 2, datatype="INT64", shape_tensor=True)],
        "resize",
    )
    loaded = Loaded(tmp_path, plan)
    assert loaded.config.max_batch_size == 6
    assert [spec.dims for spec in loaded.config.inputs] == [(2,), (1,)]
    requests = [
        a_request(loaded.config, {"IN": np.full((rows, 2), rows, np.float32), "SIZES": np.array([3])})
        for rows in (1, 2)
    ]
    batch = execute(loaded.instance, RecordedBatch(loaded.config, requests))
    assert [batch.arrays_of(index)["OUT"].shape for index in range(2)] == [(1, 3), (2, 3)]
    assert [batch.arrays_of(index)["SIZES_OUT"].tolist() for index in range(2)] == [[3], [3]]


def test_outputs_whose_shapes_depend_on_data(tmp_path: Path, gpus: FakeGpus) -> None:
    plan = a_plan([an_input("IN", 6)], [an_output("OUT", -1, datatype="INT64")], "nonzero")
    loaded = Loaded(tmp_path, plan)
    sent = np.array([0, 1, 0, 2, 3, 0], np.float32)
    first = loaded.run({"IN": sent})
    assert loaded.run({"IN": sent * 0}).arrays_of(0)["OUT"].shape == (0,)
    assert first.arrays_of(0)["OUT"].tolist() == [1, 3, 4]
    gpus.memory = 0
    loaded.backend._gpus[0].device_pool._unused.clear()
    error = error_of(loaded.run({"IN": sent}))
    assert error.message == "unable to enqueue for inference m_0: output allocator gave no memory"


# --- failures ---


def test_a_failed_copy_answers_and_harms_nothing(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    for function in ("cudaMemcpyAsync", "cudaEventSynchronize"):
        gpus.failing[function] = cudaError_t.cudaErrorIllegalAddress
        error = error_of(loaded.run({"IN": ROWS}))
        assert isinstance(error, InternalError)
        assert error.message == f"{function} failed: text of 700 (cudaErrorIllegalAddress)"
        assert all(not stream.pending for stream in gpus.streams.values())
        np.testing.assert_array_equal(loaded.run({"IN": ROWS}).arrays_of(0)["OUT"], ROWS * 2)


def test_a_full_gpu(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    gpus.memory = 0
    assert "cudaErrorMemoryAllocation" in error_of(loaded.run({"IN": ROWS})).message


# --- tensors that lie on a GPU ---


def on_gpu(gpus: FakeGpus, array: np.ndarray[Any, Any], device: int = 0) -> DeviceBuffer:
    allocation = gpus.peer(array.tobytes(), device=device)
    return DeviceBuffer(allocation.address, array.nbytes, device, None, CudaCopier(gpus.cuda()))


def test_an_input_on_the_same_gpu_is_used_where_it_lies(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    request = a_request(loaded.config, {"IN": ROWS})
    request.inputs["IN"].data = buffer = on_gpu(gpus, ROWS)
    batch = execute(loaded.instance, RecordedBatch(loaded.config, [request]))
    np.testing.assert_array_equal(batch.arrays_of(0)["OUT"], ROWS * 2)
    assert context_of(loaded).get_tensor_address("IN") == buffer.address
    assert request.inputs["IN"].data is buffer


@pytest.mark.parametrize("places", [(0, 1, None), (None, 0, None), (None, None, 1), (1,), (0, 0, 0)])
def test_inputs_from_anywhere_are_gathered(tmp_path: Path, gpus: FakeGpus, places: tuple[int | None, ...]) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    parts = [ROWS[index : index + 1] for index in range(len(places))]
    requests = [a_request(loaded.config, {"IN": part}) for part in parts]
    for request, part, device in zip(requests, parts, places, strict=True):
        if device is not None:
            request.inputs["IN"].data = on_gpu(gpus, part, device)
    batch = execute(loaded.instance, RecordedBatch(loaded.config, requests))
    for index, part in enumerate(parts):
        np.testing.assert_array_equal(batch.arrays_of(index)["OUT"], part * 2)


def test_a_piece_that_is_not_aligned_is_copied(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    request = a_request(loaded.config, {"IN": ROWS[1:2]})
    request.inputs["IN"].data = on_gpu(gpus, ROWS)[16:32]
    batch = execute(loaded.instance, RecordedBatch(loaded.config, [request]))
    np.testing.assert_array_equal(batch.arrays_of(0)["OUT"], ROWS[1:2] * 2)


@pytest.mark.parametrize("graphs", [False, True])
def test_outputs_stay_on_the_gpu_for_those_who_take_them_there(tmp_path: Path, gpus: FakeGpus, graphs: bool) -> None:
    loaded = Loaded(tmp_path, DOUBLE, plan_config(optimization=Optimization(cuda_graphs=graphs)))
    kept = []
    for factor in range(1, 6):
        batch = a_batch(loaded.config, {"IN": ROWS * factor}, {"IN": -ROWS * factor})
        batch.requests[0].outputs = [RequestedOutput("OUT", on_device=True)]
        execute(loaded.instance, batch)
        (response,) = batch.responses_to(0)
        (tensor,) = response.outputs
        array = tensor.on_device
        assert array is not None
        assert (array.shape, array.buffer.device_id) == ((3, 4), 0)
        kept.append((tensor, ROWS * factor * 2))
        (other,) = batch.responses_to(1)[0].outputs
        assert isinstance(other.data, memoryview)
        np.testing.assert_array_equal(other.as_numpy(), -ROWS * factor * 2)
    loaded.close()
    for tensor, expected in kept:
        np.testing.assert_array_equal(tensor.as_numpy(), expected)
        assert tensor.on_device is None


def test_outputs_go_to_a_client_s_region_without_the_host(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE)
    region = on_gpu(gpus, np.zeros(16, np.float32), device=1)
    batch = a_batch(loaded.config, {"IN": ROWS})
    ref = SharedMemoryRef("region", 48, 16)
    batch.requests[0].outputs = [RequestedOutput("OUT", shared_memory=ref, memory=region[16:64])]
    execute(loaded.instance, batch)
    (tensor,) = batch.responses_to(0)[0].outputs
    before = len(gpus.allocations)
    assert write(tensor, region[16:64], ref) == Tensor("OUT", DataType.FP32, (3, 4), ref)
    assert np.frombuffer(region.to_host(), np.float32).tolist() == [0] * 4 + (ROWS * 2).reshape(-1).tolist()
    assert len(gpus.allocations) == before
    with pytest.raises(InternalError, match=r"\(8 bytes\) should be at least 48 bytes"):
        write(tensor, region[:8], ref)


def test_instances_on_another_gpu(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = Loaded(tmp_path, DOUBLE, device=1)
    np.testing.assert_array_equal(loaded.run({"IN": ROWS}).arrays_of(0)["OUT"], ROWS * 2)
    assert {one.device for one in gpus.allocations} == {None, 1}


def test_instances_of_a_gpu_share_their_engine(tmp_path: Path, tensorrt: FakeTensorrt) -> None:
    loaded = Loaded(tmp_path, DOUBLE, plan_config(optimization=Optimization(priority=1)))
    other = loaded.backend.create_instance(loaded.backend._first_placement(loaded.config))
    assert context_of(loaded).engine is other._contexts[0]._context.engine
    assert other._stream != loaded.instance._stream
    assert tensorrt.gpus.stream(other._stream).priority == -5
