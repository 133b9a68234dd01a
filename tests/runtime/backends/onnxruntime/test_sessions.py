"""Session options, and which session an instance gets."""

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from charonia_runtime.core.config import Accelerator, InstanceKind, Optimization, Placement
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.installation import install_command
from tests.support import onnx_models
from tests.support.onnx_loading import Load, Loaded, blank


class TestSessionParameters:
    @pytest.mark.parametrize(
        ("level", "name"),
        [(None, "ALL"), (0, "ALL"), (3, "ALL"), (-1, "BASIC"), (1, "EXTENDED"), (2, "DISABLE_ALL")],
    )
    def test_graph_levels(self, load: Load, level: int | None, name: str) -> None:
        loaded = load(onnx_models.addition(), blank(optimization=Optimization(graph_level=level)))
        options = loaded.instance._session.get_session_options()
        expected = f"ORT_{name}" if name == "DISABLE_ALL" else f"ORT_ENABLE_{name}"
        assert options.graph_optimization_level == getattr(onnxruntime.GraphOptimizationLevel, expected)

    def test_parameters_become_session_options(self, load: Load) -> None:
        parameters = {
            "intra_op_thread_count": "1", "inter_op_thread_count": "2", "execution_mode": "1",
            "enable_mem_arena": "off", "enable_mem_pattern": "0",
            "session.use_device_allocator_for_initializers": "1", "unknown": "whatever",
        }  # fmt: skip
        options = load(onnx_models.addition(), blank(parameters=parameters)).instance._session.get_session_options()
        assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 2)
        assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
        assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
        assert options.get_session_config_entry("session.use_device_allocator_for_initializers") == "1"

    def test_idle_threads_sleep_unless_the_model_wants_them_to_spin(self, load: Load) -> None:
        options = load(onnx_models.addition()).instance._session.get_session_options()
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
        config = blank(parameters={"session.intra_op.allow_spinning": "1"})
        options = load(onnx_models.addition(), config).instance._session.get_session_options()
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "1"

    def test_memory_is_given_back_after_a_run_if_so_configured(self, load: Load) -> None:
        parameters = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
        sent = np.ones((1, 4), np.float32)
        batch = load(onnx_models.addition(), blank(parameters=parameters)).run({"A": sent, "B": sent})
        np.testing.assert_array_equal(batch.arrays_of(0)["SUM"], sent * 2)

    @pytest.mark.parametrize(
        ("parameters", "text"),
        [
            ({"execution_mode": "2"}, ("Invalid configuration value provided. Expected values for  execution_mode are "
             "0 or 1 but got 2 .")),
            ({"intra_op_thread_count": "many"}, "failed to convert 'many' to integral number"),
            ({"enable_mem_arena": "maybe"}, "failed to convert 'maybe' to boolean"),
            ({"share_session_between_instances": "maybe"}, "failed to convert 'maybe' to boolean"),
        ],
    )  # fmt: skip
    def test_malformed_parameters_are_refused(self, load: Load, parameters: dict[str, str], text: str) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            load(onnx_models.addition(), blank(parameters=parameters))
        assert caught.value.message == text

    def test_custom_op_libraries_are_loaded(self, load: Load) -> None:
        with pytest.raises(InternalError, match=r"^onnx runtime error 1: Failed to load library /no/such/library.so"):
            load(onnx_models.addition(), blank(op_library_filenames=("/no/such/library.so",)))


class TestDevices:
    def test_a_gpu_needs_the_gpu_build(self, load: Load) -> None:
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            pytest.skip("this onnxruntime is the GPU build")
        loaded = load(onnx_models.addition())
        with pytest.raises(UnavailableError, match=rf"no CUDAExecutionProvider.*{re.escape(install_command('gpu'))}"):
            loaded.backend.create_instance(Placement("m_0", InstanceKind.GPU, 0))

    def test_openvino_needs_its_build(self, load: Load) -> None:
        if "OpenVINOExecutionProvider" in onnxruntime.get_available_providers():
            pytest.skip("this onnxruntime is the OpenVINO build")
        optimization = Optimization(cpu_accelerators=(Accelerator("openvino"),))
        with pytest.raises(UnavailableError, match="no OpenVINOExecutionProvider"):
            load(onnx_models.addition(), blank(optimization=optimization))

    def test_a_model_runs_on_a_gpu(self, tmp_path: Path) -> None:
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            pytest.skip("the installed onnxruntime has no CUDA execution provider")
        loaded = Loaded(tmp_path, onnx_models.addition(), blank())
        loaded.backend.load(loaded.config)
        loaded.instance = loaded.backend.create_instance(Placement("m_0", InstanceKind.GPU, 0))
        sent = np.ones((2, 4), np.float32)
        assert loaded.instance._session.get_providers()[0] == "CUDAExecutionProvider"
        np.testing.assert_array_equal(loaded.run({"A": sent, "B": sent}).arrays_of(0)["SUM"], sent * 2)
