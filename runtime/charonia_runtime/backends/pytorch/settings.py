"""The parameters of a PyTorch model's configuration as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from charonia_runtime.core.parameters import boolean, boolean_of, integer_of

_JIT_SWITCHES = ("ENABLE_JIT_PROFILING", "ENABLE_JIT_EXECUTOR", "ENABLE_TENSOR_FUSER")


@dataclass(frozen=True, slots=True)
class Settings:
    """
    How a model runs. Thread counts of 0, and JIT switches that are not there, leave it to torch.

    Switches of cuDNN and the JIT and the thread counts hold for the process.
    """

    inference_mode: bool = True
    optimized_execution: bool = True
    weight_sharing: bool = False
    cache_cleaning: bool = False
    cudnn: bool = True
    jit_switches: Mapping[str, bool] = field(default_factory=dict)
    intra_op_threads: int = 0
    inter_op_threads: int = 0


def read_settings(parameters: Mapping[str, str]) -> Settings:
    """Raises InvalidArgumentError for a value that is malformed."""
    cleaning = boolean_of(parameters, "CACHE_CLEANING_ENABLED", default=False)  # AOTInductor's name of it
    return Settings(
        inference_mode=boolean_of(parameters, "INFERENCE_MODE", default=True),
        optimized_execution=not boolean_of(parameters, "DISABLE_OPTIMIZED_EXECUTION", default=False),
        weight_sharing=boolean_of(parameters, "ENABLE_WEIGHT_SHARING", default=False),
        cache_cleaning=boolean_of(parameters, "ENABLE_CACHE_CLEANING", default=cleaning),
        cudnn=not boolean_of(parameters, "DISABLE_CUDNN", default=False),
        jit_switches={name: boolean(parameters[name]) for name in _JIT_SWITCHES if name in parameters},
        intra_op_threads=max(integer_of(parameters, "INTRA_OP_THREAD_COUNT", 0), 0),
        inter_op_threads=max(integer_of(parameters, "INTER_OP_THREAD_COUNT", 0), 0),
    )
