"""What is refused at load, with Triton's texts."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
)
from charonia_runtime.core.scheduling import ControlKind, SequenceBatching, SequenceControl
from charonia_runtime.installation import install_command
from tests.support import onnx_models
from tests.support.configs import a_tensor
from tests.support.onnx_loading import FP32, Load, Loaded, blank
from tests.support.onnx_models import a_model, a_node, a_value

SHAPES = "model 'm', tensor 'A': "
CONTROL = SequenceBatching(controls=(SequenceControl("START", ControlKind.START, DataType.INT32),))


def pair(*dims: int, **changes: Any) -> ModelConfig:
    """A configuration of `addition`, which has FP32 tensors of [n, 4]."""
    return blank(**({
        "max_batch_size": 8,
        "inputs": (a_tensor("A", FP32, *dims), a_tensor("B", FP32, 4)),
        "outputs": (a_tensor("SUM", FP32, 4),),
    } | changes))  # fmt: skip


class TestLoadChecks:
    @pytest.mark.parametrize(
        ("config", "error", "text"),
        [
            (
                pair(4, inputs=(a_tensor("A", FP32, 4),)),
                InvalidArgumentError,
                "unable to load model 'm', configuration expects 1 inputs, model provides 2",
            ),
            (
                pair(4, inputs=(a_tensor("A", FP32, 4), a_tensor("C", FP32, 4))),
                InvalidArgumentError,
                "unexpected inference input 'C', allowed inputs are: A, B",
            ),
            (
                pair(4, outputs=(a_tensor("PRODUCT", FP32, 4),)),
                InvalidArgumentError,
                "unexpected inference output 'PRODUCT', allowed outputs are: DIFFERENCE, SUM",
            ),
            (
                pair(4, inputs=(a_tensor("A", DataType.BYTES, 4), a_tensor("B", FP32, 4))),
                InvalidArgumentError,
                (
                    "unable to load model 'm', configuration expects datatype TYPE_STRING for input 'A', model provides "
                    "TYPE_FP32"
                ),
            ),
            (
                pair(4, outputs=(a_tensor("SUM", DataType.INT64, 4),)),
                InvalidArgumentError,
                (
                    "unable to load model 'm', configuration expects datatype TYPE_INT64 for output 'SUM', model provides "
                    "TYPE_FP32"
                ),
            ),
            (
                pair(4, outputs=(a_tensor("SUM", DataType.INVALID, 4),)),
                InternalError,
                "unsupported datatype TYPE_INVALID for output 'SUM' for model 'm'",
            ),
            (
                pair(5),
                InvalidArgumentError,
                SHAPES + "the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2 "
                "dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor "
                "shape, making complete shape [-1,5]): dimension 1 is 4 in the model, 5 in config.pbtxt. The model fits dims: [4]",
            ),
            (
                pair(-1),
                InvalidArgumentError,
                SHAPES + "the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2 "
                "dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor "
                "shape, making complete shape [-1,-1]): dimension 1 is 4 in the model, -1 in config.pbtxt. The model fits dims: "
                "[4]",
            ),
            (
                pair(2, 2, max_batch_size=0),
                InvalidArgumentError,
                SHAPES + "the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2 "
                "dimensions (shape [2,2]): dimension 1 is 4 in the model, 2 in config.pbtxt. The model fits dims: [-1,4]",
            ),
            (
                pair(4, inputs=(a_tensor("A", FP32, 4, optional=True), a_tensor("B", FP32, 4))),
                InvalidArgumentError,
                "unable to load model 'm', configuration expects 1 inputs, model provides 2",
            ),
            (
                pair(4, inputs=(a_tensor("A", FP32, 4, allow_ragged=True), a_tensor("B", FP32, 4))),
                InvalidArgumentError,
                (
                    "unable to load model 'm', configuration expects model provides input with shape [-1]  for ragged "
                    "input 'A', model provides [-1,4]"
                ),
            ),
            (
                pair(4, scheduling=CONTROL),
                InternalError,
                "configuration specified sequence control 'START', but model does not provide that input",
            ),
        ],
    )
    def test_what_disagrees_is_named(
        self, load: Load, config: ModelConfig, error: type[InferenceError], text: str
    ) -> None:
        with pytest.raises(error) as caught:
            load(onnx_models.addition(), config)
        assert caught.value.message == text

    def test_batching_needs_a_dynamic_first_dimension(self, load: Load) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            load(onnx_models.addition([1, 4]), pair(4))
        assert caught.value.message == (
            SHAPES + "for the model to support batching the shape should have at least 1 dimension and the first "
            "dimension must be -1; but shape expected by the model is [1,4]"
        )

    def test_inputs_may_be_narrower_than_the_model_but_outputs_may_not(self, load: Load) -> None:
        model = onnx_models.identity()
        inputs = (a_tensor("INPUT", FP32, 3),)
        load(model, blank(max_batch_size=8, inputs=inputs, outputs=(a_tensor("OUTPUT", FP32, -1),)))
        with pytest.raises(InvalidArgumentError, match=r"complete shape \[-1,3\]"):
            load(model, blank(max_batch_size=8, inputs=inputs, outputs=(a_tensor("OUTPUT", FP32, 3),)))

    def test_a_scalar_is_configured_as_one_element(self, load: Load) -> None:
        config = blank(inputs=(a_tensor("INPUT", FP32, 2),), outputs=(a_tensor("OUTPUT", FP32, 1),))
        with pytest.raises(InvalidArgumentError) as caught:
            load(onnx_models.identity(dims=[]), config)
        assert caught.value.message == (
            "unable to load model 'm', scalar tensor 'INPUT', should only provide 1 in the model configuration when "
            "the model doesn't support batching. Model configuration provided: [2]."
        )

    def test_optional_inputs_do_not_batch(self, load: Load) -> None:
        inputs = (a_tensor("INPUT", FP32, -1), a_tensor("FACTOR", FP32, 1, optional=True))
        config = blank(max_batch_size=4, inputs=inputs, outputs=(a_tensor("OUTPUT", FP32, -1),))
        model = a_model(
            [a_node("Mul", ["INPUT", "FACTOR"], ["OUTPUT"])],
            [a_value("INPUT", ["n", "m"]), a_value("FACTOR", [1])],
            [a_value("OUTPUT", ["n", "m"])],
            FACTOR=np.ones(1, np.float32),
        )
        with pytest.raises(InvalidArgumentError) as caught:
            load(model, config)
        assert caught.value.message == (
            "unable to load model 'm', optional input 'FACTOR' is not supported for models that support batching"
        )

    @pytest.mark.parametrize(
        ("dims", "datatype", "text"),
        [
            (["n", 2], DataType.INT32, "in model has dims [2] but dims [1] is expected"),
            (
                ["n", 1],
                FP32,
                ", the model expects data-type FLOAT but the model configuration specifies data-type TYPE_INT32",
            ),
        ],
    )
    def test_sequence_controls_have_one_element_of_their_type(
        self, load: Load, dims: list[Any], datatype: DataType, text: str
    ) -> None:
        model = a_model(
            [a_node("Identity", ["INPUT"], ["OUTPUT"]), a_node("Identity", ["START"], ["STARTED"])],
            [a_value("INPUT", ["n", 1]), a_value("START", dims, datatype)],
            [a_value("OUTPUT", ["n", 1]), a_value("STARTED", dims, datatype)],
        )
        tensors = {"inputs": (a_tensor("INPUT", FP32, 1),), "outputs": (a_tensor("OUTPUT", FP32, 1),)}
        with pytest.raises(InvalidArgumentError) as caught:
            load(model, blank(max_batch_size=4, scheduling=CONTROL, **tensors))
        assert caught.value.message.startswith("unable to load model 'm', sequence control 'START'")
        assert caught.value.message.endswith(text)

    def test_sequences_are_no_tensors(self, load: Load) -> None:
        import onnx

        model = a_model(
            [a_node("SequenceConstruct", ["INPUT"], ["OUTPUT"])],
            [a_value("INPUT", [2])],
            [onnx.helper.make_tensor_sequence_value_info("OUTPUT", onnx.TensorProto.FLOAT, None)],
        )
        with pytest.raises(UnsupportedError) as caught:
            load(model)
        assert caught.value.message == (
            "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'OUTPUT', expected 'ONNX_TYPE_TENSOR'."
        )

    def test_a_file_that_is_no_model(self, load: Load) -> None:
        with pytest.raises(InternalError, match=r"^onnx runtime error 7: Load model from .* failed:Protobuf parsing"):
            load(b"not a model at all")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(UnavailableError) as caught:
            Loaded(tmp_path, b"", blank())
        assert caught.value.message == f"unable to find '{tmp_path / '1' / 'model.onnx'}' for model instance 'm'"

    def test_no_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(UnavailableError, match=re.escape(install_command("runtime"))):
            Loaded(tmp_path, b"", blank())
