import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType

SPELLINGS = [
    ("BOOL", "TYPE_BOOL", "bool", 1),
    ("UINT8", "TYPE_UINT8", "uint8", 1),
    ("UINT16", "TYPE_UINT16", "uint16", 2),
    ("UINT32", "TYPE_UINT32", "uint32", 4),
    ("UINT64", "TYPE_UINT64", "uint64", 8),
    ("INT8", "TYPE_INT8", "int8", 1),
    ("INT16", "TYPE_INT16", "int16", 2),
    ("INT32", "TYPE_INT32", "int32", 4),
    ("INT64", "TYPE_INT64", "int64", 8),
    ("FP16", "TYPE_FP16", "float16", 2),
    ("FP32", "TYPE_FP32", "float32", 4),
    ("FP64", "TYPE_FP64", "float64", 8),
    ("BYTES", "TYPE_STRING", "object", 0),
]


def test_the_table_holds_every_type_but_two() -> None:
    assert {spelling[0] for spelling in SPELLINGS} | {"BF16", "<invalid>"} == {member.value for member in DataType}


@pytest.mark.parametrize(("wire", "config", "numpy", "size"), SPELLINGS)
def test_spellings(wire: str, config: str, numpy: str, size: int) -> None:
    datatype = DataType.from_wire(wire)
    assert datatype is DataType.from_config(config) is DataType.from_numpy(numpy)
    assert (datatype.wire_name, datatype.config_name, datatype.item_size) == (wire, config, size)
    assert datatype.numpy_dtype == np.dtype(numpy)


def test_bf16_has_no_array_type_of_its_own() -> None:
    assert DataType.from_wire("BF16") is DataType.from_config("TYPE_BF16") is DataType.BF16
    assert (DataType.BF16.item_size, DataType.BF16.numpy_dtype) == (2, np.uint16)
    assert DataType.from_numpy(np.uint16) is DataType.UINT16


@pytest.mark.parametrize("dtype", ["S5", "U3", "O", "S", "U"])
def test_strings_are_bytes(dtype: str) -> None:
    assert DataType.from_numpy(dtype) is DataType.BYTES


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">u2", ">f2"])
def test_byte_order_does_not_matter(dtype: str) -> None:
    assert DataType.from_numpy(dtype) is DataType.from_numpy(np.dtype(dtype).newbyteorder("<"))


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]", "V4", "longdouble"])
def test_other_arrays_have_no_type(dtype: str) -> None:
    assert DataType.from_numpy(dtype) is DataType.INVALID


@pytest.mark.parametrize("name", ["", "fp32", "TYPE_FP32", "FLOAT", "STRING", "<invalid>"])
def test_unknown_wire_names(name: str) -> None:
    assert DataType.from_wire(name) is DataType.INVALID


@pytest.mark.parametrize("name", ["", "FP32", "type_fp32", "TYPE_BYTES", "TYPE_INVALID"])
def test_unknown_config_names(name: str) -> None:
    assert DataType.from_config(name) is DataType.INVALID
