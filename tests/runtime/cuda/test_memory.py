"""Pools of memory, copies to and from the host, memory of other processes."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceArray, DeviceBuffer
from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.cuda.memory import MemoryPool, _rounded
from charonia_runtime.cuda.regions import InterprocessMemory
from tests.support.cuda_runtime import PEER_HANDLE, FakeGpus


@pytest.fixture
def gpus() -> FakeGpus:
    return FakeGpus(2, memory=1 << 20)


# --- pools ---


@given(st.integers(0, 1 << 40))
def test_sizes_grow_by_little(size: int) -> None:
    rounded = _rounded(size)
    assert max(size, 256) <= rounded <= max(size * 1.25, 256) + 256
    assert rounded % 256 == 0
    assert _rounded(rounded) == rounded


def test_blocks_are_used_again(gpus: FakeGpus) -> None:
    pool = MemoryPool.of_device(gpus.cuda(), 1)
    first, other = pool.take(1000), pool.take(1000)
    address = first.address
    assert other.address != address
    del first
    assert pool.take(1010).address == address
    assert [one.device for one in gpus.allocations] == [1, 1]


def test_pinned_blocks_are_bytes_that_keep_themselves(gpus: FakeGpus) -> None:
    pool = MemoryPool.of_pinned_memory(gpus.cuda())
    array = np.asarray(pool.take(10))
    array[:] = 3
    gc.collect()
    assert (array.dtype, array.shape) == (np.uint8, (256,))
    assert pool.take(10).address != array.ctypes.data
    assert array.sum() == 3 * 256


def test_a_closed_pool_frees_what_comes_back(gpus: FakeGpus) -> None:
    pool = MemoryPool.of_pinned_memory(gpus.cuda())
    kept, unused = pool.take(1), pool.take(1)
    del unused
    pool.close()
    assert gpus.in_use(pinned=True) == 1
    del kept
    assert gpus.in_use(pinned=True) == 0


def test_a_full_device_gets_its_unused_blocks_back(gpus: FakeGpus) -> None:
    pool = MemoryPool.of_device(gpus.cuda(), 0)
    for _ in range(3):
        del (small := [pool.take(300 << 10)])[:]
    assert small == []
    block = pool.take(1 << 20)
    assert block.size == 1 << 20
    with pytest.raises(InternalError, match="cudaErrorMemoryAllocation"):
        pool.take(1 << 20)


# --- copies ---


def a_buffer(gpus: FakeGpus, content: bytes, device: int = 0) -> DeviceBuffer:
    allocation = gpus.peer(content, device=device)
    return DeviceBuffer(allocation.address, len(content), device, None, CudaCopier(gpus.cuda()))


def test_there_and_back(gpus: FakeGpus) -> None:
    buffer = a_buffer(gpus, b"abcdefgh", device=1)
    assert buffer[2:5].to_host() == b"cde"
    buffer[2:8].fill(memoryview(b"XY"))
    buffer[6:].fill(buffer[:2])
    assert buffer.to_host() == b"abXYefab"
    assert buffer[8:].to_host() == b""
    buffer[3:3].fill(memoryview(b""))
    assert gpus.device() == 0


def test_arrays_come_to_the_host(gpus: FakeGpus) -> None:
    content = np.arange(6, dtype=np.float32)
    array = DeviceArray(DataType.FP32, (2, 3), a_buffer(gpus, content.tobytes()))
    assert (array.ndim, array.size) == (2, 6)
    np.testing.assert_array_equal(array.reshape((3, 2)).to_host(), content.reshape(3, 2))


# --- other processes ---


def test_a_handle_stays_open_as_long_as_a_piece_of_it_is_known(gpus: FakeGpus) -> None:
    gpus.peer(b"abcdefgh", device=1)
    memory = InterprocessMemory(gpus.cuda())
    whole = memory.map(PEER_HANDLE, 1, 6)
    piece = whole[2:4]
    assert (whole.nbytes, whole.device_id) == (6, 1)
    del whole
    assert piece.to_host() == b"cd"
    assert len(gpus.opened) == 1
    del piece
    assert gpus.opened == []


@pytest.mark.parametrize(
    ("handle", "device", "size"),
    [(PEER_HANDLE, 0, 8), (PEER_HANDLE, 9, 8), (PEER_HANDLE, -1, 8), (bytes(64), 1, 8), (b"abc", 1, 8), (b"", 1, 8),
     (PEER_HANDLE, 1, 9), (PEER_HANDLE, 1, 0)],
)  # fmt: skip
def test_what_cannot_be_mapped(gpus: FakeGpus, handle: bytes, device: int, size: int) -> None:
    gpus.peer(b"abcdefgh", device=1)
    with pytest.raises(InferenceError):
        InterprocessMemory(gpus.cuda()).map(handle, device, size)
    assert gpus.opened == []
    assert gpus.device() == 0
