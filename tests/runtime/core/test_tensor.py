from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, bytes_of, pack_bytes, shape_text, unpack_bytes

NUMERIC = [member for member in DataType if member.item_size and member is not DataType.BF16]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def numeric_arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    dtype = draw(st.sampled_from(NUMERIC)).numpy_dtype
    return draw(hnp.arrays(dtype, SHAPES, elements=hnp.from_dtype(dtype, allow_nan=False)))


# --- numbers ---


@given(numeric_arrays())
def test_numbers_come_back(array: np.ndarray[Any, Any]) -> None:
    tensor = Tensor.from_numpy("T", array)
    assert tensor.byte_size == array.nbytes
    assert tensor.element_count == array.size
    assert bytes(tensor.buffer) == array.tobytes()
    back = tensor.as_numpy()
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)


@given(numeric_arrays(), st.data())
def test_views_that_do_not_lie_in_order_are_packed(array: np.ndarray[Any, Any], data: st.DataObject) -> None:
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in array.shape)
    view = array[steps].T
    assert bytes(Tensor.from_numpy("T", view).buffer) == view.tobytes()
    assert np.array_equal(Tensor.from_numpy("T", view).as_numpy(), view)


def test_arrays_in_order_are_not_copied() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    tensor = Tensor.from_numpy("T", array)
    assert np.shares_memory(tensor.as_numpy(), array)
    assert np.shares_memory(np.frombuffer(bytes_of(array), np.uint8), array)


def test_read_only_arrays_stay_so() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    assert not Tensor.from_numpy("T", array).as_numpy().flags.writeable
    assert not Tensor("T", DataType.UINT8, (2,), memoryview(b"ab")).as_numpy().flags.writeable


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">u2"])
def test_big_endian_arrays_are_turned_around(dtype: str) -> None:
    array = np.array([1, 2, 300], dtype=dtype)
    tensor = Tensor.from_numpy("T", array)
    assert bytes(tensor.buffer) == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert tensor.as_numpy().tolist() == [1, 2, 300]


def test_bf16_is_named() -> None:
    bits = np.array([0x3F80, 0x4000], dtype=np.uint16)
    tensor = Tensor.from_numpy("T", bits, DataType.BF16)
    assert (tensor.datatype, tensor.byte_size) == (DataType.BF16, 4)
    assert tensor.as_numpy().tolist() == bits.tolist()


# --- strings ---


@given(st.lists(st.binary(max_size=20)))
def test_packed_elements_come_back(elements: list[bytes]) -> None:
    packed = pack_bytes(elements)
    assert packed.nbytes == sum(4 + len(element) for element in elements)
    assert unpack_bytes(packed, "T") == elements


@given(SHAPES, st.data())
def test_arrays_of_strings_come_back(shape: tuple[int, ...], data: st.DataObject) -> None:
    elements = data.draw(st.lists(st.binary(max_size=5), min_size=prod(shape), max_size=prod(shape)))
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    array = array.reshape(shape)
    tensor = Tensor.from_numpy("T", array)
    back = tensor.as_numpy()
    assert (tensor.datatype, back.dtype, back.shape) == (DataType.BYTES, np.dtype(object), shape)
    assert back.reshape(-1).tolist() == elements


@given(st.lists(st.binary(max_size=6), min_size=1), st.data())
def test_cut_strings_are_refused(elements: list[bytes], data: st.DataObject) -> None:
    packed = pack_bytes(elements)
    ends = {0}
    for element in elements:
        ends.add(max(ends) + 4 + len(element))
    cut = data.draw(st.sampled_from([at for at in range(packed.nbytes) if at not in ends]))
    with pytest.raises(
        InvalidArgumentError, match=r"^incomplete string (length indicator|data) for inference input 'T'"
    ):
        unpack_bytes(packed[:cut], "T")


def test_texts_of_cut_strings() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        unpack_bytes(memoryview(b"\1\0\0"), "T")
    assert raised.value.message == (
        "incomplete string length indicator for inference input 'T', expecting 4 bytes but only 3 bytes available"
    )
    with pytest.raises(InvalidArgumentError) as raised:
        unpack_bytes(memoryview(b"\xff\xff\xff\xffab"), "T")
    assert raised.value.message == (
        "incomplete string data for inference input 'T', expecting string of length 4294967295 but only 2 bytes "
        "available"
    )


@pytest.mark.parametrize(("shape", "count"), [((3,), 1), ((1,), 3), ((2, 2), 3), ((0,), 1), ((), 0)])
def test_strings_of_another_number_are_refused(shape: tuple[int, ...], count: int) -> None:
    tensor = Tensor("T", DataType.BYTES, shape, pack_bytes([b"x"] * count))
    with pytest.raises(InvalidArgumentError, match=rf"expected {prod(shape)} string elements .* 'T', got {count}"):
        tensor.as_numpy()


def test_what_is_not_bytes_becomes_text() -> None:
    given_elements = ["é", 5, 1.5, None, bytearray(b"a"), memoryview(b"b"), np.str_("c"), np.bytes_(b"d"), True]
    assert unpack_bytes(pack_bytes(given_elements), "T") == [
        "é".encode(), b"5", b"1.5", b"None", b"a", b"b", b"c", b"d", b"True",
    ]  # fmt: skip


def test_numpy_strings_are_packed() -> None:
    assert Tensor.from_numpy("T", np.array([["a", "éb"]])).as_numpy().tolist() == [[b"a", "éb".encode()]]
    assert Tensor.from_numpy("T", np.array([b"a", b"bc"])).as_numpy().tolist() == [b"a", b"bc"]


# --- the rest ---


def test_unresolved_shared_memory_has_no_bytes() -> None:
    tensor = Tensor("T", DataType.INT32, (4,), SharedMemoryRef("region", 16, 8))
    assert tensor.byte_size == 16
    with pytest.raises(TypeError, match="tensor 'T' lies in shared memory that has not been resolved"):
        tensor.as_numpy()


def test_shape_text() -> None:
    assert shape_text((1, -1, 3)) == "[1,-1,3]"
    assert shape_text(()) == "[]"
