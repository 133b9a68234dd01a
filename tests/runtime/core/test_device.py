"""Tensors that lie on a device, as batches and frameworks see them."""

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core import dlpack
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceArray, DeviceBuffer
from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.scheduling import SequenceBatching, SequenceState
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.stub import dlpack as reader
from tests.support.batches import RecordedBatch, a_batch
from tests.support.configs import a_config, a_tensor
from tests.support.cuda_runtime import FakeGpus

FP32 = DataType.FP32
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def gpus() -> FakeGpus:
    return FakeGpus(2)


def buffer_of(gpus: FakeGpus, array: np.ndarray, device: int = 0) -> DeviceBuffer:
    address = gpus.peer(array.tobytes() or b"\0", device=device).address
    return DeviceBuffer(address, array.nbytes, device, None, CudaCopier(gpus.cuda()))


def on_device(gpus: FakeGpus, array: np.ndarray, datatype: DataType = FP32) -> DeviceArray:
    return DeviceArray(datatype, array.shape, buffer_of(gpus, array))


def batch_of(*parts: np.ndarray, wanted: Any = (), **changes: Any) -> RecordedBatch:
    """A batch of one request for each part; `wanted` are the outputs that each asks for."""
    fields = {"inputs": (a_tensor("IN", FP32, 4),), "outputs": (a_tensor("OUT", FP32, 4),)}
    batch = a_batch(a_config(**(fields | changes)), *[{"IN": part} for part in parts])
    for request, outputs in zip(batch.requests, wanted or [()] * len(parts), strict=True):
        request.outputs = list(outputs)
    return batch


# --- tensors ---


def test_a_tensor_is_copied_once_by_whoever_needs_it_on_the_host(gpus: FakeGpus) -> None:
    tensor = Tensor("T", FP32, (3, 4), buffer_of(gpus, ROWS))
    assert tensor.byte_size == ROWS.nbytes
    assert tensor.on_device is not None
    assert not gpus.copies
    np.testing.assert_array_equal(tensor.as_numpy(), ROWS)
    np.testing.assert_array_equal(tensor.as_numpy(), ROWS)
    assert gpus.copies == {"gpu to host": 1}
    assert tensor.on_device is None


def test_strings_may_lie_there_too(gpus: FakeGpus) -> None:
    packed = np.frombuffer(Tensor.from_numpy("T", np.array([b"a", b"bc"], object)).buffer, np.uint8)
    tensor = Tensor("T", DataType.BYTES, (2,), buffer_of(gpus, packed))
    assert tensor.as_numpy().tolist() == [b"a", b"bc"]


# --- DLPack ---


@pytest.mark.parametrize("datatype", list(dlpack.FIELDS), ids=lambda datatype: datatype.value)
def test_capsules_say_what_lies_where(gpus: FakeGpus, datatype: DataType) -> None:
    array = DeviceArray(datatype, (3, 2), buffer_of(gpus, np.zeros((3, 2), datatype.numpy_dtype), device=1))
    assert array.__dlpack_device__() == (dlpack.CUDA, 1)
    found = reader.read(array)
    assert (found.datatype, found.shape, found.data, found.foreign) == (datatype, (3, 2), None, array)
    capsule = array.__dlpack__(stream=1, max_version=(1, 0), dl_device=None, copy=None)
    address = reader._pointer_of(capsule, dlpack.NAME)
    tensor = dlpack.ManagedTensor.from_address(address).tensor
    assert (tensor.data, tensor.device_type, tensor.device_id) == (array.buffer.address, dlpack.CUDA, 1)


def test_the_memory_lives_as_long_as_the_consumer_wants(gpus: FakeGpus) -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    capsule = DeviceArray(FP32, (1,), DeviceBuffer(256, 4, 0, owner, CudaCopier(gpus.cuda()))).__dlpack__()
    managed = dlpack.ManagedTensor.from_address(reader._pointer_of(capsule, dlpack.NAME))
    reader._rename(capsule, b"used_dltensor")
    del capsule, owner
    gc.collect()
    assert alive() is not None
    managed.deleter(ctypes.addressof(managed))
    assert alive() is None


def test_strings_have_no_capsule(gpus: FakeGpus) -> None:
    with pytest.raises(BufferError, match="DLPack has no type for BYTES"):
        DeviceArray(DataType.BYTES, (1,), buffer_of(gpus, ROWS)).__dlpack__()


# --- batches: inputs ---


def test_pieces_lie_where_they_lay(gpus: FakeGpus) -> None:
    batch = batch_of(ROWS[:1], ROWS[1:])
    batch.requests[1].inputs["IN"].data = buffer_of(gpus, ROWS[1:])
    first, second = batch.pieces("IN")
    assert isinstance(first, np.ndarray)
    assert isinstance(second, DeviceArray)
    np.testing.assert_array_equal(second.to_host(), ROWS[1:])
    assert batch.gathered_shape("IN") == (3, 4)
    assert batch.pieces("OTHER") == []


def test_pieces_are_reshaped(gpus: FakeGpus) -> None:
    spec = a_tensor("IN", FP32, 2, -1, reshape=(-1, 1, 2))
    batch = batch_of(ROWS.reshape(3, 2, 2), inputs=(spec,))
    batch.requests[0].inputs["IN"].data = buffer_of(gpus, ROWS)
    (piece,) = batch.pieces("IN")
    assert piece.shape == batch.gathered_shape("IN") == (3, 2, 1, 2)


def test_ragged_pieces_are_flat(gpus: FakeGpus) -> None:
    batch = batch_of(ROWS[:1, :3], ROWS[1:2], inputs=(a_tensor("IN", FP32, -1, allow_ragged=True),))
    batch.requests[1].inputs["IN"].data = buffer_of(gpus, ROWS[1:2])
    assert [piece.shape for piece in batch.pieces("IN")] == [(3,), (4,)]
    assert batch.gathered_shape("IN") == (7,)


def test_without_batching_the_shape_is_the_client_s() -> None:
    batch = batch_of(ROWS, max_batch_size=0, inputs=(a_tensor("IN", FP32, 3, 4),))
    assert batch.gathered_shape("IN") == (3, 4)


def test_models_of_the_host_gather_as_ever(gpus: FakeGpus) -> None:
    batch = batch_of(ROWS[:1], ROWS[1:])
    batch.requests[0].inputs["IN"].data = buffer_of(gpus, ROWS[:1])
    np.testing.assert_array_equal(batch.gather("IN"), ROWS)


# --- batches: outputs ---


def test_each_request_gets_its_rows_where_it_takes_them(gpus: FakeGpus) -> None:
    region = buffer_of(gpus, ROWS)
    wanted = [[RequestedOutput("OUT", on_device=True)], [RequestedOutput("OUT", memory=region)], []]
    batch = batch_of(ROWS[:1], ROWS[:1], ROWS[:1], wanted=wanted)
    assert batch.wanted_on_device() == {"OUT"}
    batch.scatter({"OUT": on_device(gpus, ROWS)})
    batch.flush()
    tensors = [batch.responses_to(index)[0].outputs[0] for index in range(3)]
    assert [tensor.on_device is not None for tensor in tensors] == [True, True, False]
    for index, tensor in enumerate(tensors):
        np.testing.assert_array_equal(tensor.as_numpy(), ROWS[index : index + 1])


def test_answers_of_other_kinds_leave_the_device_too(gpus: FakeGpus) -> None:
    batch = batch_of(ROWS, ROWS, wanted=[[RequestedOutput("OUT", on_device=True)], []])
    for index in range(2):
        batch.respond(index, [Tensor("OUT", FP32, ROWS.shape, buffer_of(gpus, ROWS))])
    batch.flush()
    tensors = [batch.responses_to(index)[0].outputs[0] for index in range(2)]
    assert [tensor.on_device is not None for tensor in tensors] == [True, False]
    np.testing.assert_array_equal(tensors[1].as_numpy(), ROWS)


def test_nobody_takes_anything_there() -> None:
    assert batch_of(ROWS, wanted=[[RequestedOutput("OUT")]]).wanted_on_device() == frozenset()


def test_missing_rows_are_an_error_of_their_requests(gpus: FakeGpus) -> None:
    batch = batch_of(ROWS[:2], ROWS)
    batch.scatter({"OUT": on_device(gpus, ROWS)})
    batch.flush()
    np.testing.assert_array_equal(batch.arrays_of(0)["OUT"], ROWS[:2])
    error = batch.responses_to(1)[0].error
    assert isinstance(error, UnsupportedError)
    assert error.message.endswith("expected batch size of at least 5 in model output, got 3")


def test_outputs_are_reshaped_back(gpus: FakeGpus) -> None:
    wanted = [[RequestedOutput("OUT", on_device=True)]]
    batch = batch_of(ROWS, wanted=wanted, outputs=(a_tensor("OUT", FP32, 2, 2, reshape=(4,)),))
    batch.scatter({"OUT": on_device(gpus, ROWS)})
    batch.flush()
    assert batch.arrays_of(0)["OUT"].shape == (3, 2, 2)


def test_states_come_to_the_host(gpus: FakeGpus) -> None:
    states = (SequenceState("STATE", "NEXT", FP32, (4,)),)
    batch = batch_of(ROWS[:1], scheduling=SequenceBatching(states=states))
    batch.scatter({"OUT": on_device(gpus, ROWS[:1]), "NEXT": on_device(gpus, ROWS[1:2])})
    assert batch.states is not None
    np.testing.assert_array_equal(batch.states[0]["STATE"].as_numpy(), ROWS[1:2])
    assert isinstance(batch.states[0]["STATE"].data, memoryview)
