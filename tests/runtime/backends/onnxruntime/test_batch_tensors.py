"""Ragged inputs, batch inputs and batch outputs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.config import BatchInput, BatchOutput, ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from tests.support.batches import a_batch
from tests.support.configs import a_tensor
from tests.support.loaded_models import execute
from tests.support.onnx_loading import FP32, Load, blank
from tests.support.onnx_models import a_model, a_node, a_value


def ragged(kind: str, dims: list[Any], datatype: DataType = DataType.INT32) -> tuple[bytes, ModelConfig]:
    """A model that gives back its flat ragged input, and what `kind` made of the batch's shape."""
    model = a_model(
        [a_node("Identity", ["INPUT"], ["FLAT"]), a_node("Identity", ["MADE"], ["SEEN"]),
         a_node("Shape", ["MADE"], ["SHAPE"])],
        [a_value("INPUT", ["n"]), a_value("MADE", dims, datatype)],
        [a_value("FLAT", ["n"]), a_value("SEEN", dims, datatype), a_value("SHAPE", [len(dims)], DataType.INT64)],
    )  # fmt: skip
    config = blank(
        max_batch_size=8,
        inputs=(a_tensor("INPUT", FP32, -1, allow_ragged=True),),
        outputs=(a_tensor("FLAT", FP32, -1),),
        batch_inputs=(BatchInput(kind, ("MADE",), datatype, ("INPUT",)),),
        batch_outputs=(BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", ("FLAT",), ("INPUT",)),),
    )
    return model, config


class TestRagged:
    PARTS = (np.arange(3, dtype=np.float32)[None], np.arange(4, dtype=np.float32).reshape(2, 2))

    @pytest.mark.parametrize(
        ("kind", "made"),
        [
            ("BATCH_ELEMENT_COUNT", [3, 4]),
            ("BATCH_ACCUMULATED_ELEMENT_COUNT", [3, 7]),
            ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 3, 7]),
            ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0, 0, 0, 0]),
            ("BATCH_ITEM_SHAPE", [[3], [2], [2]]),
            ("BATCH_ITEM_SHAPE_FLATTEN", [3, 2, 2]),
        ],
    )
    @pytest.mark.parametrize("datatype", [DataType.INT32, FP32])
    def test_batch_inputs_tell_the_shape_of_the_batch(
        self, load: Load, kind: str, made: list[Any], datatype: DataType
    ) -> None:
        model, config = ragged(kind, ["a", "b"] if kind == "BATCH_ITEM_SHAPE" else ["a"], datatype)
        loaded = load(model, config)
        batch = a_batch(config, *[{"INPUT": part} for part in self.PARTS])
        fed = loaded.instance._feeds(batch)
        assert fed["MADE"].tolist() == made
        assert fed["MADE"].dtype == datatype.numpy_dtype
        assert fed["INPUT"].tolist() == [0, 1, 2, 0, 1, 2, 3]
        execute(loaded.instance, batch)
        for index, part in enumerate(self.PARTS):
            np.testing.assert_array_equal(batch.arrays_of(index)["FLAT"], part)

    def test_unknown_kinds_are_refused(self, load: Load) -> None:
        model, config = ragged("BATCH_ELEMENT_COUNT", ["a"])
        made = replace(config.batch_inputs[0], kind="BATCH_MOOD")
        with pytest.raises(InvalidArgumentError, match=r"batch_input\[0\].kind 'BATCH_MOOD'"):
            load(model, replace(config, batch_inputs=(made,)))
        cut = replace(config.batch_outputs[0], kind="BATCH_MOOD")
        with pytest.raises(InvalidArgumentError, match=r"batch_output\[0\].kind 'BATCH_MOOD'"):
            load(model, replace(config, batch_outputs=(cut,)))
