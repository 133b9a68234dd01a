"""Auto-complete from the graph."""

from typing import Any

import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import DynamicBatching
from tests.support import onnx_models
from tests.support.configs import a_tensor
from tests.support.onnx_loading import FP32, blank


class TestAutoComplete:
    def test_a_graph_whose_tensors_all_start_with_a_dynamic_size_batches(self, complete: Any) -> None:
        config = complete(onnx_models.addition(["batch", 4]))
        assert config.max_batch_size == 4
        assert config.scheduling == DynamicBatching()
        assert {spec.name: spec.dims for spec in config.inputs} == {"A": (4,), "B": (4,)}
        assert {spec.name: spec.dims for spec in config.outputs} == {"SUM": (4,), "DIFFERENCE": (4,)}
        assert {spec.datatype for spec in config.inputs} == {FP32}

    def test_the_command_line_says_how_large_batches_become(self, complete: Any) -> None:
        assert complete(onnx_models.addition(), **{"default-max-batch-size": "32"}).max_batch_size == 32

    def test_a_default_of_one_row_makes_no_dynamic_batcher(self, complete: Any) -> None:
        config = complete(onnx_models.addition(), **{"default-max-batch-size": "1"})
        assert config.max_batch_size == 1
        assert config.scheduling == blank().scheduling

    def test_a_default_of_zero_keeps_the_whole_shape(self, complete: Any) -> None:
        config = complete(onnx_models.addition(["batch", 4]), **{"default-max-batch-size": "0"})
        assert config.max_batch_size == 0
        assert config.inputs[0].dims == (-1, 4)

    def test_a_configured_size_stays(self, complete: Any) -> None:
        assert complete(onnx_models.addition(), blank(max_batch_size=2)).max_batch_size == 2

    def test_a_configured_scheduler_stays(self, complete: Any) -> None:
        scheduling = DynamicBatching(preferred_batch_sizes=(4,))
        assert complete(onnx_models.addition(), blank(scheduling=scheduling)).scheduling == scheduling

    def test_a_fixed_first_dimension_does_not_batch(self, complete: Any) -> None:
        config = complete(onnx_models.addition([1, "n"]))
        assert config.max_batch_size == 0
        assert config.inputs[0].dims == (1, -1)

    def test_a_graph_that_cannot_batch_refuses_a_batch_size(self, complete: Any) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            complete(onnx_models.addition([1, 4]), blank(max_batch_size=8))
        assert caught.value.message == (
            "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified"
        )

    def test_a_dimension_that_is_only_the_batch_becomes_a_reshape(self, complete: Any) -> None:
        config = complete(onnx_models.identity(dims=["n"]))
        assert (config.inputs[0].dims, config.inputs[0].reshape) == ((1,), ())
        assert (config.outputs[0].dims, config.outputs[0].reshape) == ((1,), ())

    def test_a_scalar_becomes_one_element(self, complete: Any) -> None:
        config = complete(onnx_models.identity(dims=[]))
        assert (config.inputs[0].dims, config.inputs[0].reshape) == ((1,), None)

    def test_what_is_configured_stays(self, complete: Any) -> None:
        outputs = (a_tensor("SUM", FP32, 4, label_filename="labels.txt"),)
        config = complete(onnx_models.addition(), blank(max_batch_size=8, outputs=outputs))
        assert config.outputs == outputs
        assert len(config.inputs) == 2

    def test_a_complete_configuration_does_not_touch_the_file(self, complete: Any) -> None:
        config = blank(inputs=(a_tensor("A", FP32, 4),), outputs=(a_tensor("SUM", FP32, 4),))
        assert complete(b"no model", config) == config

    def test_inputs_with_a_default_are_not_listed(self, complete: Any) -> None:
        assert [spec.name for spec in complete(onnx_models.scaling()).inputs] == ["INPUT"]

    @pytest.mark.parametrize("datatype", list(onnx_models.ELEMENTS), ids=lambda datatype: datatype.value)
    def test_every_type_is_known(self, complete: Any, datatype: DataType) -> None:
        assert complete(onnx_models.identity(datatype)).inputs[0].datatype is datatype

    def test_a_setting_that_is_no_number_is_refused(self, complete: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="failed to convert 'four' to integral number"):
            complete(onnx_models.addition(), **{"default-max-batch-size": "four"})
