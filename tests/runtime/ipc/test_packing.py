import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.packing import INLINE_BYTES, KnownRange, Packer
from tests.support.channel_ends import ChannelEnds, read_frame

TENSORS = st.lists(
    st.builds(
        lambda name, datatype, shape, size: Tensor(name, datatype, tuple(shape), memoryview(bytes(size))),
        st.text(max_size=50).filter(lambda text: "\0" not in text),
        st.sampled_from(list(DataType)),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5),
        st.one_of(st.integers(0, 100), st.integers(INLINE_BYTES - 5, INLINE_BYTES + 5), st.integers(0, 300_000)),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(TENSORS)
def test_tensors_come_out_as_they_went_in(tensors: list[Tensor]) -> None:
    ends = ChannelEnds()
    for _ in range(2):  # the second time from memory
        packer = ends.packer()
        for tensor in tensors:
            packer.add_tensor(tensor)
        for tensor, found in zip(tensors, ends.tensors(packer, len(tensors)), strict=True):
            assert (found.name, found.datatype, found.shape) == (tensor.name, tensor.datatype, tensor.shape)
            assert found.buffer == tensor.buffer


def test_names_that_no_model_has_are_not_remembered() -> None:
    """A client may send as many as it likes."""
    ends = ChannelEnds()
    for number in range(3):
        packer = ends.packer()
        packer.add_tensor(Tensor(f"{number}" * 10_000, DataType.UINT8, (1,), memoryview(b"a")))
        [found] = ends.tensors(packer, 1)
        assert found.name == f"{number}" * 10_000
    for codec in (ends._sent, ends._received):
        assert not codec._encoded
        assert not codec._decoded


def test_arrays_in_frames_are_aligned_and_writable() -> None:
    ends = ChannelEnds()
    packer = ends.packer()
    packer.add(b"xyz")
    for size in (1, 3, 9):
        packer.add_tensor(Tensor.from_numpy("a", np.ones(size)))
    frame = ends.pass_on(packer)
    reader = ends.reader(frame)
    assert reader.take(3) == b"xyz"
    for _ in range(3):
        array = reader.tensor().read(frame.body, ends.theirs.borrow).as_numpy()
        assert array.flags.aligned
        assert array.flags.writeable


def test_many_small_tensors_do_not_make_a_large_frame() -> None:
    ends = ChannelEnds()
    packer = ends.packer()
    for _ in range(20):
        packer.add_tensor(Tensor.from_numpy("a", np.ones(2000)))
    assert len(packer.frame(1)) < 70_000
    assert len(packer.blocks) > 10


def test_what_was_added_can_be_taken_back() -> None:
    ends = ChannelEnds()
    packer = ends.packer()
    packer.add_tensor(Tensor.from_numpy("kept", np.arange(10_000)))
    before = packer.frame(1)
    mark = packer.mark()
    packer.add_tensor(Tensor.from_numpy("small", np.ones(3)))
    packer.add_tensor(Tensor.from_numpy("large", np.ones(10_000)))
    packer.undo_to(mark)
    assert packer.frame(1) == before
    assert packer.copied_bytes == 80_000
    (found,) = ends.tensors(packer, 1)
    np.testing.assert_array_equal(found.as_numpy(), np.arange(10_000))


def test_known_bytes_are_not_copied() -> None:
    ends = ChannelEnds()
    block = ends.arena.allocate(80_000)
    array = np.frombuffer(block.view, np.float64)
    array[:] = np.arange(10_000)
    address = ends.own.address(1) + block.offset
    packer = Packer(ends.arena, ends._sent, [KnownRange(address, block.size, 1, block.offset)])
    packer.add_tensor(Tensor.from_numpy("part", array[5:5005]))
    packer.add_tensor(Tensor.from_numpy("other", array + 1))
    assert len(packer.blocks) == 1
    part, other = ends.tensors(packer, 2)
    np.testing.assert_array_equal(part.as_numpy(), np.arange(5, 5005))
    np.testing.assert_array_equal(other.as_numpy(), np.arange(1, 10_001))


def test_the_data_of_a_frame_is_where_its_header_says() -> None:
    ends = ChannelEnds()
    packer = ends.packer()
    packer.add_tensor(Tensor.from_numpy("a", np.uint8([7])))
    frame = read_frame(packer.frame(3, flags=1, entry=2, number=4))
    assert (frame.kind, frame.flags, frame.entry, frame.number) == (3, 1, 2, 4)
    assert frame.body[frame.data_offset] == 7
