"""`pb_utils.Tensor` and its way over DLPack."""

import gc
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core import dlpack as core_dlpack
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.tensor import Tensor as WireTensor
from charonia_runtime.stub import dlpack
from charonia_runtime.stub.exceptions import TritonModelException
from charonia_runtime.stub.tensor import Tensor


def received(array: np.ndarray[Any, Any], datatype: DataType | None = None) -> Tensor:
    tensor = WireTensor.from_numpy("IN", array, datatype)
    return Tensor.from_wire(WireTensor("IN", tensor.datatype, tensor.shape, memoryview(bytearray(tensor.buffer))))


def test_it_tells_what_it_is() -> None:
    tensor = Tensor("A", np.zeros((2, 3), np.float16))
    assert (tensor.name(), tensor.shape(), tensor.triton_dtype(), tensor.is_cpu()) == ("A", [2, 3], DataType.FP16, True)
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("arguments", [("A", [1, 2]), (5, np.zeros(1)), ("A", None)])
def test_other_types_are_refused_as_pybind_does(arguments: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError) as caught:
        Tensor(*arguments)
    assert str(caught.value) == (
        "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
        "    1. c_python_backend_utils.Tensor(arg0: str, arg1: numpy.ndarray)\n\n"
        f"Invoked with: {arguments[0]!r}, {arguments[1]!r}"
    )


@pytest.mark.parametrize("dtype", ["complex64", "<U3", "datetime64[s]", "V4"])
def test_types_without_a_name_are_refused(dtype: str) -> None:
    with pytest.raises(TritonModelException, match=r"^NumPy dtype is not supported\.$"):
        Tensor("A", np.zeros(1, dtype))


def test_a_name_is_needed() -> None:
    with pytest.raises(TritonModelException, match=r"^Tensor name cannot be an empty string\.$"):
        Tensor("", np.zeros(1))


def test_the_array_is_always_the_same_and_changes_are_sent() -> None:
    for tensor in (Tensor("A", np.arange(4)), received(np.arange(4))):
        tensor.as_numpy()[0] = 9
        assert tensor.as_numpy() is tensor.as_numpy()
        assert tensor.to_wire().as_numpy().tolist() == [9, 1, 2, 3]


def test_strings_stay_objects_until_they_are_sent() -> None:
    tensor = Tensor("A", np.array([5, None, b"x", "é"], np.object_))
    assert tensor.as_numpy().tolist() == [5, None, b"x", "é"]
    assert tensor.to_wire().as_numpy().tolist() == [b"5", b"None", b"x", "é".encode()]
    assert Tensor("A", np.array([b"ab", b"c"])).to_wire().as_numpy().tolist() == [b"ab", b"c"]
    strings = received(np.array([b"one", b""], np.object_))
    strings.as_numpy()[1] = b"two"
    assert strings.to_wire().as_numpy().tolist() == [b"one", b"two"]


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3).T, np.arange(10)[::-2], np.arange(3, dtype=">i4"), np.array(5)]
)
def test_layouts_are_made_plain(array: np.ndarray[Any, Any]) -> None:
    wire = Tensor("A", array).to_wire()
    np.testing.assert_array_equal(wire.as_numpy(), array)
    assert wire.shape == array.shape


def test_bf16_has_no_array() -> None:
    tensor = received(np.uint16([0x3F80]), DataType.BF16)
    with pytest.raises(TritonModelException, match=r"^Tensor dtype is BF16 and cannot be converted to NumPy\."):
        tensor.as_numpy()
    again = Tensor.from_dlpack("OUT", tensor)
    assert again.to_wire().datatype is DataType.BF16
    assert bytes(again.to_wire().buffer) == b"\x80\x3f"


@pytest.mark.parametrize("datatype", [each for each in DataType if each.item_size and each is not DataType.BF16])
def test_dlpack_shares_the_memory(datatype: DataType) -> None:
    array = np.ones((2, 3), datatype.numpy_dtype)
    seen = np.from_dlpack(Tensor("A", array))
    assert seen.dtype == array.dtype
    array[0, 0] = 0
    assert seen[0, 0] == 0
    back = Tensor.from_dlpack("B", array)
    back.as_numpy()[1, 1] = 0
    assert array[1, 1] == 0
    assert back.shape() == [2, 3]


def test_capsules_cross_as_well() -> None:
    tensor = Tensor("A", np.arange(5))
    capsule = tensor.to_dlpack()
    assert "dltensor" in repr(capsule)
    assert Tensor.from_dlpack("B", capsule).as_numpy().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(TritonModelException, match="consumed"):
        Tensor.from_dlpack("B", capsule)


def test_memory_lives_exactly_as_long_as_somebody_looks() -> None:
    before = len(core_dlpack._exported)
    unused = Tensor("A", np.arange(5)).to_dlpack()
    seen = np.from_dlpack(Tensor("A", np.arange(5)))
    ours = Tensor.from_dlpack("B", Tensor("A", np.arange(5)).to_dlpack())
    array = ours.as_numpy()
    del ours
    gc.collect()
    assert len(core_dlpack._exported) == before + 3
    assert array.tolist() == seen.tolist() == [0, 1, 2, 3, 4]
    del unused, seen, array
    gc.collect()
    assert len(core_dlpack._exported) == before


def test_what_dlpack_cannot_carry() -> None:
    with pytest.raises(TritonModelException, match=r"^DLPack does not have support for string tensors\.$"):
        Tensor("A", np.array([b"x"])).to_dlpack()
    with pytest.raises(
        TritonModelException, match=r"^DLPack tensor is not contiguous\. Only contiguous DLPack tensors"
    ):
        Tensor.from_dlpack("B", np.arange(6).reshape(2, 3).T)
    with pytest.raises(TritonModelException) as caught:
        Tensor.from_dlpack("B", [1, 2])
    assert str(caught.value) == (
        "Provided tensor is not supported. Tensor must be a DLPack capsule         or have `__dlpack__` and "
        "`__dlpack_device__` attributes"
    )
    assert Tensor.from_dlpack("B", np.zeros((0, 3))).shape() == [0, 3]


class OnDevice:
    """Stands for a tensor on a GPU, which only its framework can copy."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **_: Any) -> Any:
        data = memoryview(self.array).cast("B")
        capsule = dlpack.export(data, DataType.FP32, self.array.shape)
        managed = core_dlpack.ManagedTensor.from_address(dlpack._pointer_of(capsule, b"dltensor"))
        managed.tensor.device_type = 2
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 3

    def cpu(self) -> np.ndarray[Any, Any]:
        return self.array


def test_tensors_on_a_device_are_copied_when_they_are_sent() -> None:
    tensor = Tensor.from_dlpack("A", OnDevice(np.float32([1, 2])))
    assert not tensor.is_cpu()
    assert tensor.__dlpack_device__() == (2, 3)
    with pytest.raises(TritonModelException, match=r"^Tensor is stored in GPU and cannot be converted to NumPy\.$"):
        tensor.as_numpy()
    assert tensor.to_wire().as_numpy().tolist() == [1, 2]
