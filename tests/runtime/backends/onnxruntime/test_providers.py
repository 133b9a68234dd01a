"""From accelerators, parameters and devices to execution providers: no GPU is needed to get the options right."""

from typing import Any

import pytest

from charonia_runtime.backends.onnxruntime.providers import Provider, check_available, execution_providers
from charonia_runtime.core.config import Accelerator, InstanceKind, Optimization
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.installation import install_command
from tests.support.onnx_loading import blank

CPU = Provider("CPUExecutionProvider")
ANY_TENSORRT = {
    "trt_max_partition_iterations": "1000", "trt_min_subgraph_size": "1", "trt_dla_enable": "0", "trt_dla_core": "0",
    "trt_engine_cache_enable": "on", "trt_engine_cache_path": "/cache", "trt_engine_cache_prefix": "m",
    "trt_dump_subgraphs": "false", "trt_force_sequential_engine_build": "0", "trt_context_memory_sharing_enable": "1",
    "trt_layer_norm_fp32_fallback": "1", "trt_timing_cache_enable": "1", "trt_timing_cache_path": "/timing",
    "trt_force_timing_cache": "0", "trt_detailed_build_log": "0", "trt_build_heuristics_enable": "0",
    "trt_sparsity_enable": "0", "trt_builder_optimization_level": "3", "trt_auxiliary_streams": "-1",
    "trt_tactic_sources": "-CUDNN", "trt_extra_plugin_lib_paths": "/plugin.so", "trt_profile_min_shapes": "A:1x4",
    "trt_profile_max_shapes": "A:8x4", "trt_profile_opt_shapes": "A:4x4", "trt_cuda_graph_enable": "0",
    "trt_dump_ep_context_model": "0", "trt_ep_context_file_path": "/context", "trt_ep_context_embed_mode": "0",
}  # fmt: skip


def providers(
    kind: InstanceKind = InstanceKind.GPU,
    *,
    gpu: tuple[Accelerator, ...] = (),
    cpu: tuple[Accelerator, ...] = (),
    device_id: int = 0,
    **parameters: str,
) -> tuple[Provider, ...]:
    config = blank(optimization=Optimization(gpu_accelerators=gpu, cpu_accelerators=cpu), parameters=parameters)
    return execution_providers(config, kind, device_id)


def test_the_cpu_comes_last_always() -> None:
    assert providers(InstanceKind.CPU) == (CPU,)
    assert providers(InstanceKind.MODEL) == (CPU,)
    assert providers()[-1] == CPU


def test_a_gpu_instance_runs_on_its_device() -> None:
    assert providers(device_id=3) == (Provider("CUDAExecutionProvider", (("device_id", "3"),)), CPU)


def test_accelerators_keep_their_order_and_cuda_follows() -> None:
    found = providers(gpu=(Accelerator("tensorrt"),), cpu=(Accelerator("openvino"),), device_id=1)
    assert [provider.name for provider in found] == [
        "TensorrtExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider", "CPUExecutionProvider",
    ]  # fmt: skip
    assert dict(found[0].options) == {"device_id": "1"}
    assert dict(found[2].options) == {"device_type": "CPU"}


def test_instances_on_the_cpu_ignore_accelerators_of_gpus() -> None:
    assert providers(InstanceKind.CPU, gpu=(Accelerator("nonsense"),)) == (CPU,)


@pytest.mark.parametrize("where", ["gpu", "cpu"])
def test_unknown_accelerators_are_refused(where: str) -> None:
    wanted: Any = {where: (Accelerator("warp_drive"),)}
    with pytest.raises(InvalidArgumentError) as caught:
        providers(**wanted)
    assert caught.value.message == "unknown Execution Accelerator 'warp_drive' is requested"


def tensorrt(**parameters: str) -> dict[str, str]:
    return dict(providers(gpu=(Accelerator("tensorrt", parameters),))[0].options)


@pytest.mark.parametrize(
    ("mode", "options"),
    [("FP32", {}), ("FP16", {"trt_fp16_enable": "True"}), ("BF16", {"trt_bf16_enable": "True"}),
     ("INT8", {"trt_int8_enable": "True"})],
)  # fmt: skip
def test_precision_modes(mode: str, options: dict[str, str]) -> None:
    assert tensorrt(precision_mode=mode) == {**options, "device_id": "0"}


def test_tensorrt_parameters_with_names_of_their_own() -> None:
    assert tensorrt(
        max_workspace_size_bytes="1073741824", int8_calibration_table_name="t", int8_use_native_calibration_table="0"
    ) == {
        "trt_max_workspace_size": "1073741824",
        "trt_int8_calibration_table_name": "t",
        "trt_int8_use_native_calibration_table": "False",
        "device_id": "0",
    }


def test_every_other_tensorrt_parameter_passes() -> None:
    options = tensorrt(**ANY_TENSORRT)
    assert options.keys() == {*ANY_TENSORRT, "device_id"}
    assert options["trt_engine_cache_enable"] == "True"
    assert options["trt_dump_subgraphs"] == "False"
    assert options["trt_builder_optimization_level"] == "3"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"precision_mode": "FP4"}, "unsupported precision mode 'FP4' is requested"),
        ({"magic": "1"}, "unknown parameter 'magic' is provided for TensorRT Execution Accelerator"),
        ({"trt_dla_core": "one"}, "failed to convert 'one' to integral number"),
        ({"trt_dla_enable": "perhaps"}, "failed to convert 'perhaps' to boolean"),
    ],
)
def test_malformed_tensorrt_parameters_are_refused(parameters: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        tensorrt(**parameters)
    assert caught.value.message == text


def cuda(accelerator: dict[str, str] | None = None, **parameters: str) -> dict[str, str]:
    accelerators = (Accelerator("cuda", accelerator),) if accelerator is not None else ()
    return dict(providers(gpu=accelerators, **parameters)[0].options)


def test_any_cuda_option_passes() -> None:
    assert cuda({"enable_cuda_graph": "1", "do_copy_in_default_stream": "false", "whatever": "x"}) == {
        "enable_cuda_graph": "1", "do_copy_in_default_stream": "0", "whatever": "x", "device_id": "0",
    }  # fmt: skip


def test_the_model_s_own_parameters_set_cuda_options_too() -> None:
    assert cuda(
        {"gpu_mem_limit": "1"}, cudnn_conv_algo_search="2", arena_extend_strategy="1", gpu_mem_limit="2147483648",
        do_copy_in_default_stream="1",
    ) == {
        "cudnn_conv_algo_search": "DEFAULT", "arena_extend_strategy": "kSameAsRequested",
        "gpu_mem_limit": "2147483648", "do_copy_in_default_stream": "1", "device_id": "0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"cudnn_conv_algo_search": "3"}, "unsupported cudnn_conv_algo_search value '3' is requested"),
        ({"arena_extend_strategy": "-1"}, "unsupported arena_extend_strategy value '-1' is requested"),
        ({"gpu_mem_limit": "all"}, "failed to convert 'all' to integral number"),
    ],
)
def test_malformed_cuda_parameters_are_refused(parameters: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        cuda(**parameters)
    assert caught.value.message == text


def test_cuda_graphs_are_known() -> None:
    assert Provider("CUDAExecutionProvider", (("enable_cuda_graph", "1"),)).captures_graphs
    assert Provider("TensorrtExecutionProvider", (("trt_cuda_graph_enable", "True"),)).captures_graphs
    assert not Provider("CUDAExecutionProvider", (("enable_cuda_graph", "0"),)).captures_graphs


def test_a_provider_that_is_not_installed_is_named_with_what_to_install() -> None:
    check_available(providers(InstanceKind.CPU), ["CPUExecutionProvider"])
    with pytest.raises(UnavailableError) as caught:
        check_available(providers(), ["CPUExecutionProvider"])
    assert caught.value.message == (
        "the installed onnxruntime has no CUDAExecutionProvider, it has: CPUExecutionProvider; install it with "
        f"{install_command('gpu')}"
    )
