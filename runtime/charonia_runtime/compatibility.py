"""Flags of tritonserver that Charonia takes so that scripts keep working, though they change nothing here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from charonia_runtime.core.frontend import OptionError, option

_REPLACED = {"strict-model-config": "disable-auto-complete-config"}
"""Deprecated flags that still work → the flag that replaces each."""
_POOLS = "Memory is taken from the system's allocator as needed."


@dataclass(frozen=True)
class CompatibilityOptions:
    """Accepted and without effect; the start-up log names each one that was given."""

    enable_peer_access: bool = option(True, "Copies between GPUs are the framework's business.")
    pinned_memory_pool_byte_size: int = option(268_435_456, f"{_POOLS} Shown by the metrics.")
    cuda_memory_pool_byte_size: tuple[str, ...] = option((), _POOLS, metavar="<integer>:<integer>")
    cuda_virtual_address_size: tuple[str, ...] = option((), _POOLS, metavar="<integer>:<integer>")
    buffer_manager_thread_count: int = option(0, "Tensors are gathered in the instance's own thread.")
    host_policy: tuple[str, ...] = option(
        (), "Pin the process with taskset or numactl.", metavar="<policy>,<key>=<value>"
    )
    model_load_gpu_limit: tuple[str, ...] = option(
        (), "The frameworks fail when a GPU is full.", metavar="<device>:<fraction>"
    )
    cache_directory: str = option("/opt/tritonserver/caches", "Caches are part of the package.")
    repoagent_directory: str = option("/opt/tritonserver/repoagents", "Repository agents are part of the package.")
    allow_sagemaker: bool = option(False, "There is no SageMaker frontend.")
    sagemaker_port: int = option(8080, "There is no SageMaker frontend.")
    sagemaker_safe_port_range: str = option("", "There is no SageMaker frontend.", metavar="<integer>-<integer>")
    sagemaker_thread_count: int = option(8, "There is no SageMaker frontend.")
    allow_vertex_ai: bool = option(False, "There is no Vertex AI frontend.")
    vertex_ai_port: int = option(8080, "There is no Vertex AI frontend.")
    vertex_ai_thread_count: int = option(8, "There is no Vertex AI frontend.")
    vertex_ai_default_model: str = option("", "There is no Vertex AI frontend.")

    def __post_init__(self) -> None:
        for value in (*self.cuda_memory_pool_byte_size, *self.cuda_virtual_address_size):
            _check_pair(value, "cuda-memory-pool-byte-size")
        for value in self.host_policy:
            if "," not in value or "=" not in value.partition(",")[2]:
                raise OptionError(
                    "host-policy",
                    f"--host-policy option format is '<policy name>,<setting>=<value>'. Got {value}",
                )
        for value in self.model_load_gpu_limit:
            _check_limit(value)
        for flag in ("sagemaker", "vertex_ai"):
            if getattr(self, f"allow_{flag}"):
                name = f"allow-{flag.replace('_', '-')}"
                raise OptionError(name, f"--{name}=true asks for a frontend that Charonia does not have")


def without_effect(given: Sequence[str]) -> list[str]:
    """Those of the flags given that change nothing."""
    names = {field.name.replace("_", "-") for field in fields(CompatibilityOptions)}
    return [flag for flag in given if flag in names]


def deprecation_warnings(given: Sequence[str]) -> list[str]:
    """Triton's words for each of the flags given that another one replaces; empty where there is none."""
    return [
        f"Warning: '--{old}' has been deprecated! Please use '--{new}' instead."
        for old, new in _REPLACED.items()
        if old in given
    ]


def _check_limit(value: str) -> None:
    device, _, fraction = value.partition(":")
    is_number = fraction.replace(".", "", 1).isdecimal()
    if not (device.isdecimal() and is_number and float(fraction) <= 1):
        raise OptionError(
            "model-load-gpu-limit",
            "--model-load-gpu-limit option format is '<device id>:<fraction>', with a fraction from 0 to 1. "
            f"Got {value}",
        )


def _check_pair(value: str, flag: str) -> None:
    first, _, second = value.partition(":")
    if not second or not first.isdecimal() or not second.isdecimal():
        raise OptionError(
            flag,
            "Cannot parse pair option due to incorrect number of inputs."
            f"--<pair option> argument requires format <first>:<second>. Found: {value}",
        )
