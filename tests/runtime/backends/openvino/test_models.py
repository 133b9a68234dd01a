"""OpenVINO models: completed, checked, fitted to their configuration, run."""

import logging
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="the package openvino is not installed")

from openvino import opset13 as operations  # noqa: E402

from charonia_runtime.backends import load_backend  # noqa: E402
from charonia_runtime.core.backend import ModelFiles  # noqa: E402
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, TensorSpec  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError  # noqa: E402
from charonia_runtime.core.scheduling import DynamicBatching  # noqa: E402
from charonia_runtime.installation import install_command  # noqa: E402
from tests.support.configs import a_config, a_tensor  # noqa: E402
from tests.support.openvino_models import Loaded, difference, save, save_without_names  # noqa: E402

FP32 = DataType.FP32
EXAMPLE = Path(__file__).parents[4] / "runtime/examples/models/digits/1/model.onnx"
SUBJECT = "model 'm', tensor 'LEFT': "


def blank(**changes: Any) -> ModelConfig:
    return a_config("m", **({"backend": "openvino", "max_batch_size": 0, "inputs": (), "outputs": ()} | changes))


def pair(*dims: int, datatype: DataType = FP32, **changes: Any) -> ModelConfig:
    return blank(**({
        "max_batch_size": 8,
        "inputs": (a_tensor("LEFT", datatype, *dims), a_tensor("RIGHT", datatype, *dims)),
        "outputs": (a_tensor("DIFFERENCE", datatype, *dims),),
    } | changes))  # fmt: skip


def arrays(rows: int, width: int = 4, dtype: Any = np.float32) -> dict[str, np.ndarray[Any, Any]]:
    return {"LEFT": np.full((rows, width), 5, dtype), "RIGHT": np.full((rows, width), 3, dtype)}


class TestCompletion:
    def test_layouts_tell_of_batches(self, tmp_path: Path) -> None:
        config = Loaded(save(difference([-1, 4], "NC"), tmp_path), blank()).config
        assert (config.max_batch_size, config.scheduling) == (4, DynamicBatching())
        assert config.inputs == (TensorSpec("LEFT", FP32, (-1,)), TensorSpec("RIGHT", FP32, (-1,)))
        assert config.outputs == (TensorSpec("DIFFERENCE", FP32, (-1,)),)

    def test_fixed_shapes_stay(self, tmp_path: Path) -> None:
        config = Loaded(save(difference([2, 4], "NC"), tmp_path), blank(max_batch_size=2)).config
        assert config.inputs[0].dims == (4,)

    def test_ports_without_names_are_called_as_their_nodes(self, tmp_path: Path) -> None:
        made = difference([2, 4])
        (minus,) = [node for node in made.get_ops() if node.get_type_name() == "Subtract"]
        minus.set_friendly_name("minus")
        left, right = (port.get_node().get_friendly_name() for port in made.inputs)

        loaded = Loaded(save_without_names(made, tmp_path), blank())

        assert [spec.name for spec in loaded.config.inputs] == [left, right]
        assert [spec.name for spec in loaded.config.outputs] == ["minus"]
        batch = loaded.load().run({left: np.full((2, 4), 5, np.float32), right: np.full((2, 4), 3, np.float32)})
        np.testing.assert_array_equal(batch.arrays_of(0)["minus"], np.full((2, 4), 2, np.float32))

    def test_parts_of_a_node_without_names_are_numbered(self, tmp_path: Path) -> None:
        source = operations.parameter([2, 4], openvino.Type.f32, name="x")
        halves = operations.split(source, operations.constant(np.array(1)), 2, name="halves")
        made = openvino.Model([operations.result(half) for half in halves.outputs()], [source], "m")

        config = Loaded(save_without_names(made, tmp_path), blank()).config

        assert [spec.name for spec in config.outputs] == ["halves.0", "halves.1"]

    def test_without_layouts_nothing_batches(self, tmp_path: Path) -> None:
        config = Loaded(save(difference([-1, 4]), tmp_path), blank()).config
        assert (config.max_batch_size, config.inputs[0].dims) == (0, (-1, -1))

    def test_a_batch_size_without_layouts_is_warned_of(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            Loaded(save(difference([-1, 4]), tmp_path), blank(max_batch_size=4))
        assert "name no batch dimension" in caplog.text

    def test_the_command_line_sets_the_batch_size(self, tmp_path: Path) -> None:
        loaded = Loaded(save(difference([-1, 4], "NC"), tmp_path), blank(), **{"default-max-batch-size": "16"})
        assert loaded.config.max_batch_size == 16


class TestExecution:
    def test_requests_are_batched(self, tmp_path: Path) -> None:
        batch = Loaded(save(difference([-1, 4]), tmp_path), pair(4)).load().run(arrays(1), arrays(3))
        np.testing.assert_array_equal(batch.arrays_of(1)["DIFFERENCE"], np.full((3, 4), 2))

    def test_a_model_of_a_fixed_batch_runs_any(self, tmp_path: Path) -> None:
        loaded = Loaded(save(difference([1, 4]), tmp_path), pair(4)).load()
        assert loaded.run(arrays(3)).arrays_of(0)["DIFFERENCE"].shape == (3, 4)

    def test_types_are_those_of_the_configuration(self, tmp_path: Path) -> None:
        loaded = Loaded(save(difference([-1, 4]), tmp_path), pair(4, datatype=DataType.INT32)).load()
        made = loaded.run(arrays(2, dtype=np.int32)).arrays_of(0)["DIFFERENCE"]
        assert (made.dtype, made[0, 0]) == (np.int32, 2)

    def test_inputs_may_be_reshaped(self, tmp_path: Path) -> None:
        config = pair(6, parameters={"RESHAPE_IO_LAYERS": "YES"})
        loaded = Loaded(save(difference([1, 4]), tmp_path), config).load()
        assert loaded.run(arrays(2, 6)).arrays_of(0)["DIFFERENCE"].shape == (2, 6)

    def test_what_openvino_raises_is_told(self, tmp_path: Path) -> None:
        (response,) = Loaded(save(difference([-1, 4]), tmp_path), pair(-1)).load().run(arrays(1, 5)).responses_to(0)
        assert isinstance(response.error, InternalError)
        assert response.error.message.startswith("openvino error in running async inference : ")

    def test_onnx_as_the_library_alone_runs_it(self, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.onnx").symlink_to(EXAMPLE)
        images = np.random.default_rng(0).random((3, 64), np.float32)
        config = blank(max_batch_size=8, default_model_filename="model.onnx")
        config = replace(config, inputs=(a_tensor("IMAGE", FP32, 64),), outputs=(a_tensor("PROBABILITIES", FP32, 10),))
        answer = Loaded(tmp_path, config).load().run({"IMAGE": images}).arrays_of(0)["PROBABILITIES"]
        (expected,) = openvino.Core().compile_model(EXAMPLE, "CPU")([images]).to_tuple()
        np.testing.assert_array_equal(answer, expected)

    @pytest.mark.parametrize(
        "parameters",
        [{"PERFORMANCE_HINT": "THROUGHPUT"}, {"NUM_STREAMS": "AUTO"}, {"INFERENCE_NUM_THREADS": "1"},
         {"COMPILATION_NUM_THREADS": "1"}, {"TARGET_DEVICE": "cpu"}],
    )  # fmt: skip
    def test_every_parameter_is_taken(self, parameters: dict[str, str], tmp_path: Path) -> None:
        loaded = Loaded(save(difference([-1, 4]), tmp_path), pair(4, parameters=parameters)).load()
        assert loaded.run(arrays(1)).arrays_of(0)["DIFFERENCE"][0, 0] == 2


class TestRefusedAtLoad:
    @pytest.mark.parametrize(
        ("config", "error", "text"),
        [
            (
                pair(4, inputs=(a_tensor("LEFT", FP32, 4),)),
                InvalidArgumentError,
                "unable to load model 'm', configuration expects 1 inputs, model provides 2",
            ),
            (
                pair(4, inputs=(a_tensor("LEFT", FP32, 4), a_tensor("OTHER", FP32, 4))),
                InvalidArgumentError,
                "unexpected inference input 'OTHER', allowed inputs are: LEFT, RIGHT",
            ),
            (
                pair(4, outputs=(a_tensor("SUM", FP32, 4),)),
                InvalidArgumentError,
                "unexpected inference output 'SUM', allowed outputs are: DIFFERENCE",
            ),
            (
                pair(4, datatype=DataType.BYTES),
                InternalError,
                "unsupported datatype TYPE_STRING for input 'LEFT' for model 'm'",
            ),
            (
                pair(5),
                InvalidArgumentError,
                SUBJECT + "the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2 "
                "dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor "
                "shape, making complete shape [-1,5]): dimension 1 is 4 in the model, 5 in config.pbtxt. The model fits dims: [4]",
            ),
            (
                pair(4, instance_groups=(InstanceGroup("m", InstanceKind.GPU, 1, gpus=(0,)),)),
                InvalidArgumentError,
                "unable to load model 'm', Triton OpenVINO backend supports only Kind CPU and AUTO",
            ),
            (
                pair(4, parameters={"TARGET_DEVICE": "npu:x,y"}),
                InternalError,
                "openvino error in loading model : ",
            ),
        ],
    )
    def test_with_triton_s_texts(self, config: ModelConfig, error: type[Exception], text: str, tmp_path: Path) -> None:
        with pytest.raises(error) as caught:
            Loaded(save(difference([-1, 4]), tmp_path), config).load()
        assert str(caught.value).startswith(text)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(UnavailableError) as caught:
            Loaded(tmp_path, pair(4)).load()
        assert caught.value.message == f"unable to find '{tmp_path}/1/model.xml' for model instance 'm'"

    def test_a_file_that_is_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.xml").write_text("<nothing/>")
        with pytest.raises(InternalError, match=r"^openvino error in reading model : "):
            Loaded(tmp_path, pair(4)).load()

    def test_a_missing_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "openvino", None)
        with pytest.raises(UnavailableError, match=re.escape(install_command("openvino"))):
            load_backend("openvino")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))
