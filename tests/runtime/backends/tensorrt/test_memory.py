"""Inputs on their way to the GPU, from wherever they lie."""

from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.backends.tensorrt.memory import InputMemory, OutputMemory
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.cuda.memory import MemoryPool
from tests.support.cuda_runtime import FakeGpus

PLACES = st.sampled_from([None, 0, 1])
"""The host, this GPU, another one."""
BATCHES = st.lists(st.tuples(PLACES, st.binary(max_size=600), st.integers(0, 8)), min_size=1, max_size=8)


@given(st.lists(BATCHES, min_size=1, max_size=4), st.booleans())
def test_the_gpu_finds_all_pieces_in_their_order(batches: list, own_address: bool) -> None:
    gpus = FakeGpus(2)
    cuda = gpus.cuda()
    memory = InputMemory(cuda, 0, MemoryPool.of_pinned_memory(cuda), MemoryPool.of_device(cuda, 0))
    stream = cuda.create_stream()
    for pieces in batches:
        buffers: list = []
        for device, content, offset in pieces:
            if device is None:
                buffers.append(memoryview(content))
            else:
                address = gpus.peer(b"?" * offset + content + b"?", device=device).address
                buffers.append(
                    DeviceBuffer(address + offset, len(content), device, None, CudaCopier(cuda))
                )  # fmt: skip
        expected = b"".join(content for _, content, _ in pieces)
        address = memory.place(buffers, max(len(expected), 1), stream, own_address=own_address)
        cuda.wait(stream)
        assert gpus.bytes_at(address, len(expected)) == expected
        found = gpus.find(address)
        assert found is not None
        assert found.device == 0
        assert address % 256 == 0
        if own_address:
            assert all(buffer.address != address for buffer in buffers if isinstance(buffer, DeviceBuffer))


def test_outputs_keep_their_place_until_they_are_given_away() -> None:
    gpus = FakeGpus()
    output = OutputMemory(MemoryPool.of_device(gpus.cuda(), 0))
    first = output.block(1000)
    assert output.block(10) is first
    given_away = output.give_away(first)
    other = output.block(1000)
    assert other.address != given_away.address
    address = given_away.address
    del given_away, first
    assert output.block(5000).address not in {address, other.address}
    assert output.give_away(other) is other
