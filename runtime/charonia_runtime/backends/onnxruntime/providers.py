"""Execution accelerators, parameters and devices of a configuration → execution providers with their options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charonia_runtime.core.config import Accelerator, InstanceKind, ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.core.parameters import boolean, integer
from charonia_runtime.installation import install_command

CPU: Final = "CPUExecutionProvider"
CUDA: Final = "CUDAExecutionProvider"
TENSORRT: Final = "TensorrtExecutionProvider"
OPENVINO: Final = "OpenVINOExecutionProvider"

_PRECISIONS = {"FP32": "", "FP16": "trt_fp16_enable", "BF16": "trt_bf16_enable", "INT8": "trt_int8_enable"}
_TENSORRT_NAMES = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
_TENSORRT_NUMBERS = frozenset({
    "max_workspace_size_bytes", "trt_max_partition_iterations", "trt_min_subgraph_size", "trt_dla_core",
    "trt_builder_optimization_level", "trt_auxiliary_streams", "trt_ep_context_embed_mode",
})  # fmt: skip
_TENSORRT_SWITCHES = frozenset({
    "int8_use_native_calibration_table", "trt_dla_enable", "trt_engine_cache_enable", "trt_dump_subgraphs",
    "trt_force_sequential_engine_build", "trt_context_memory_sharing_enable", "trt_layer_norm_fp32_fallback",
    "trt_timing_cache_enable", "trt_force_timing_cache", "trt_detailed_build_log", "trt_build_heuristics_enable",
    "trt_sparsity_enable", "trt_cuda_graph_enable", "trt_dump_ep_context_model",
})  # fmt: skip
_TENSORRT_TEXTS = frozenset({
    "int8_calibration_table_name", "trt_engine_cache_path", "trt_engine_cache_prefix", "trt_timing_cache_path",
    "trt_tactic_sources", "trt_extra_plugin_lib_paths", "trt_profile_min_shapes", "trt_profile_max_shapes",
    "trt_profile_opt_shapes", "trt_ep_context_file_path",
})  # fmt: skip
_CUDA_SWITCHES = frozenset({"do_copy_in_default_stream", "use_ep_level_unified_stream"})
_CUDA_CHOICES: Mapping[str, Sequence[str]] = {
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
}
_GRAPH_SWITCHES = ("enable_cuda_graph", "trt_cuda_graph_enable")


@dataclass(frozen=True, slots=True)
class Provider:
    """One execution provider with its options, in the order of the configuration."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def captures_graphs(self) -> bool:
        """Whether it replays CUDA graphs: then a session's memory serves one run at a time."""
        return any(key in _GRAPH_SWITCHES and value in {"1", "True", "true"} for key, value in self.options)


def execution_providers(config: ModelConfig, kind: InstanceKind, device_id: int) -> tuple[Provider, ...]:
    """
    Providers in order of preference: GPU accelerators, CUDA, CPU accelerators, CPU.

    Instances that are not on a GPU ignore the GPU accelerators. Raises InvalidArgumentError for names and values that
    are unknown.
    """
    gpu: list[Provider] = []
    if kind is InstanceKind.GPU:
        gpu = _gpu_providers(config, device_id)
    cpu = [_cpu_provider(accelerator) for accelerator in config.optimization.cpu_accelerators]
    return (*gpu, *cpu, Provider(CPU))


def check_available(providers: Sequence[Provider], available: Sequence[str]) -> None:
    """Raises UnavailableError for a provider that the installed onnxruntime was built without."""
    for provider in providers:
        if provider.name not in available:
            advice = f"; install it with {install_command('gpu')}" if provider.name in {CUDA, TENSORRT} else ""
            raise UnavailableError(
                f"the installed onnxruntime has no {provider.name}, it has: {', '.join(available)}{advice}"
            )


def _gpu_providers(config: ModelConfig, device_id: int) -> list[Provider]:
    device = ("device_id", str(device_id))
    providers: list[Provider] = []
    cuda: dict[str, str] = {}
    for accelerator in config.optimization.gpu_accelerators:
        if accelerator.name == "tensorrt":
            providers.append(Provider(TENSORRT, (*_tensorrt_options(accelerator.parameters).items(), device)))
        elif accelerator.name == "cuda":
            cuda.update(_cuda_options(accelerator.parameters))
        else:
            raise _unknown(accelerator)
    cuda.update(_cuda_parameters(config.parameters))
    return [*providers, Provider(CUDA, (*cuda.items(), device))]


def _cpu_provider(accelerator: Accelerator) -> Provider:
    if accelerator.name != "openvino":
        raise _unknown(accelerator)
    return Provider(OPENVINO, (("device_type", "CPU"),))


def _unknown(accelerator: Accelerator) -> InvalidArgumentError:
    return InvalidArgumentError(f"unknown Execution Accelerator '{accelerator.name}' is requested")


def _tensorrt_options(parameters: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, value in parameters.items():
        name = _TENSORRT_NAMES.get(key, key)
        if key == "precision_mode":
            if value not in _PRECISIONS:
                raise InvalidArgumentError(f"unsupported precision mode '{value}' is requested")
            name, value = _PRECISIONS[value], "True"  # noqa: PLW2901 - a mode is a switch of its own
        elif key in _TENSORRT_NUMBERS:
            integer(value)
        elif key in _TENSORRT_SWITCHES:
            value = str(boolean(value))  # noqa: PLW2901 - onnxruntime's Python package takes True and False only
        elif key not in _TENSORRT_TEXTS:
            raise InvalidArgumentError(f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator")
        if name and value:
            options[name] = value
    return options


def _cuda_options(parameters: Mapping[str, str]) -> dict[str, str]:
    """Any option of the CUDA provider, as it is."""
    return {
        key: ("1" if boolean(value) else "0") if key in _CUDA_SWITCHES else value
        for key, value in parameters.items()
        if value
    }


def _cuda_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The options that may stand among the model's own parameters, some of them as numbers."""
    options: dict[str, str] = {}
    for key, choices in _CUDA_CHOICES.items():
        if key in parameters:
            choice = integer(parameters[key])
            if choice not in range(len(choices)):
                raise InvalidArgumentError(f"unsupported {key} value '{choice}' is requested")
            options[key] = choices[choice]
    if "gpu_mem_limit" in parameters:
        options["gpu_mem_limit"] = str(integer(parameters["gpu_mem_limit"]))
    if "do_copy_in_default_stream" in parameters:
        options["do_copy_in_default_stream"] = "1" if boolean(parameters["do_copy_in_default_stream"]) else "0"
    return options
