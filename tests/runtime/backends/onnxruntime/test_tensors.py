"""Types that need care: BYTES and BF16."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.backends.onnxruntime.tensors import string_array
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnsupportedError
from tests.support import onnx_models
from tests.support.configs import a_tensor
from tests.support.onnx_loading import Load, blank, error_of
from tests.support.onnx_models import a_model, a_node, a_value


class TestStrings:
    def test_strings_pass_a_model_with_any_shape(self, load: Load) -> None:
        loaded = load(onnx_models.identity(DataType.BYTES, ["n", 2]))
        batch = loaded.run(
            {"INPUT": np.array([["a", "é"]], object)}, {"INPUT": np.array([["", "x\0y"], ["b", "c"]], object)}
        )
        assert batch.arrays_of(0)["OUTPUT"].tolist() == [[b"a", "é".encode()]]
        assert batch.arrays_of(1)["OUTPUT"].tolist() == [[b"", b"x\0y"], [b"b", b"c"]]

    @pytest.mark.parametrize(
        "elements",
        [
            pytest.param([b"\xff\xfe", b"a"], id="of different length"),
            pytest.param([b"\xff\0", b"\0\xff"], id="of one length, with NUL"),
            pytest.param([b"\xff" * 3, b"\xff" * 3], id="of one length"),
        ],
    )
    def test_bytes_that_are_no_text_reach_the_model(self, load: Load, elements: list[bytes]) -> None:
        model = a_model(
            [a_node("Unique", ["INPUT"], ["VALUES", "", "", "COUNTS"])],
            [a_value("INPUT", [-1], DataType.BYTES)],
            [a_value("COUNTS", ["k"], DataType.INT64)],
        )
        sent = np.array([*elements, *elements], object)
        tensors = {
            "inputs": (a_tensor("INPUT", DataType.BYTES, -1),),
            "outputs": (a_tensor("COUNTS", DataType.INT64, -1),),
        }
        counts = load(model, blank(**tensors)).run({"INPUT": sent}).arrays_of(0)["COUNTS"]
        assert counts.tolist() == [2 * elements.count(element) for element in sorted(set(elements))]

    def test_bytes_that_cannot_pass_are_the_client_s_error(self, load: Load) -> None:
        batch = load(onnx_models.identity(DataType.BYTES)).run({"INPUT": np.array([[b"\xff\0", b"a"]], object)})
        error = error_of(batch)
        assert isinstance(error, InvalidArgumentError)
        assert error.message.startswith("input 'INPUT' has BYTES elements that are not UTF-8")

    def test_padding_does_not_multiply_what_a_client_sends(self, load: Load) -> None:
        sent = np.array([[b"\xff" * 100_000, *[b"a"] * 1000]], object)
        error = error_of(load(onnx_models.identity(DataType.BYTES)).run({"INPUT": sent}))
        assert isinstance(error, InvalidArgumentError)

    def test_an_output_that_is_no_text_is_an_internal_error(self, load: Load) -> None:
        batch = load(onnx_models.identity(DataType.BYTES)).run({"INPUT": np.array([[b"\xff"]], object)})
        error = error_of(batch)
        assert isinstance(error, InternalError)
        assert "not UTF-8" in error.message


@given(st.lists(st.text(), min_size=1))
def test_every_text_passes(elements: list[str]) -> None:
    sent = np.array([element.encode() for element in elements], object)
    assert string_array(sent, "INPUT").tolist() == elements


@given(st.lists(st.binary(max_size=40), min_size=1).filter(lambda elements: not is_text(elements)))
def test_other_bytes_pass_as_they_are_or_not_at_all(elements: list[bytes]) -> None:
    array = np.empty(len(elements), object)
    array[:] = elements
    try:
        passed = string_array(array, "INPUT")
    except InvalidArgumentError:
        assert any(b"\0" in element for element in elements)
    else:
        # A fixed-width string must end in a NUL byte: onnxruntime reads up to there, whatever the width.
        assert passed.dtype.kind == "V" or passed.dtype.itemsize > max(map(len, elements))
        assert [element.item() if passed.dtype.kind == "V" else element for element in passed] == elements


def is_text(elements: list[bytes]) -> bool:
    try:
        for element in elements:
            element.decode()
    except UnicodeDecodeError:
        return False
    return True


class TestBfloat16:
    def test_bits_are_computed_with(self, load: Load) -> None:
        model = a_model(
            [a_node("Cast", ["INPUT"], ["WIDE"], to=1), a_node("Add", ["WIDE", "WIDE"], ["DOUBLE"]),
             a_node("Cast", ["DOUBLE"], ["OUTPUT"], to=16)],
            [a_value("INPUT", ["n", 2], DataType.BF16)],
            [a_value("OUTPUT", ["n", 2], DataType.BF16), a_value("DOUBLE", ["n", 2])],
        )  # fmt: skip
        one, two, minus_three, minus_six = 0x3F80, 0x4000, 0xC040, 0xC0C0
        batch = load(model).run(
            {"INPUT": np.array([[one, minus_three]], np.uint16)}, {"INPUT": np.array([[one, one]], np.uint16)}
        )
        assert batch.arrays_of(0)["OUTPUT"].tolist() == [[two, minus_six]]
        assert batch.arrays_of(0)["DOUBLE"].tolist() == [[2, -6]]
        assert batch.arrays_of(1)["OUTPUT"].tolist() == [[two, two]]
        assert batch.responses_to(0)[0].outputs[0].datatype is DataType.BF16

    def test_strings_and_bf16_outputs_do_not_go_together(self, load: Load) -> None:
        model = a_model(
            [a_node("Identity", ["TEXT"], ["SAME"]), a_node("Cast", ["TEXT"], ["OUTPUT"], to=16)],
            [a_value("TEXT", ["n", 2], DataType.BYTES)],
            [a_value("OUTPUT", ["n", 2], DataType.BF16), a_value("SAME", ["n", 2], DataType.BYTES)],
        )
        with pytest.raises(UnsupportedError, match="TYPE_STRING inputs and TYPE_BF16 outputs"):
            load(model)
