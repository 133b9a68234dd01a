"""What `--backend-config=python,…` and a model's parameters say."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError

_LEAST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that have an effect here. Other keys of Triton's are accepted and ignored."""

    default_bytes: int = _LEAST_BYTES
    """Shared memory of an instance at its start."""
    growth_bytes: int = _LEAST_BYTES
    timeout_seconds: float = 30.0
    """How long a child may take to start, before the model is imported."""
    prefix: str = "triton_python_backend_shm_region_"
    """What shared memory is called in messages. It has no name anywhere else."""
    interpreter: str = sys.executable
    unload_seconds: float = 600.0
    """
    How long a child whose model is unloaded may be silent while it owes an answer, or the end of `finalize`, before it
    is killed; 0 for ever, as in Triton. This setting is our own.
    """


def read_settings(values: Mapping[str, str]) -> Settings:
    """Raises InvalidArgumentError with Triton's texts."""
    defaults = Settings()
    default_bytes = _integer(values, "shm-default-byte-size", defaults.default_bytes)
    if default_bytes < _LEAST_BYTES:
        raise InvalidArgumentError("shm-default-byte-size can't be smaller than 4 MiBs")
    growth_bytes = _integer(values, "shm-growth-byte-size", defaults.growth_bytes)
    if growth_bytes <= 0:
        raise InvalidArgumentError("shm-growth-byte-size can't be smaller than or equal to zero.")
    timeout_seconds = _integer(values, "stub-timeout-seconds", int(defaults.timeout_seconds))
    if timeout_seconds <= 0:
        raise InvalidArgumentError("stub-timeout-seconds can't be smaller than or equal to zero.")
    unload_seconds = _integer(values, "unload-timeout-seconds", int(defaults.unload_seconds))
    if unload_seconds < 0:
        raise InvalidArgumentError("unload-timeout-seconds can't be smaller than zero.")
    prefix = values.get("shm-region-prefix-name", defaults.prefix)
    if not prefix:
        raise InvalidArgumentError("shm-region-prefix-name must at least contain one character.")
    if _integer(values, "thread-pool-size", 1) < 1:
        raise InvalidArgumentError("thread-pool-size can't be less than 1.")
    interpreter = values.get("python-runtime", "") or defaults.interpreter
    return Settings(
        default_bytes, growth_bytes, float(timeout_seconds), prefix, interpreter, unload_seconds=float(unload_seconds)
    )


def check_parameters(config: ModelConfig) -> None:
    """Raises UnsupportedError for parameters of a model that have a wrong value."""
    value = config.parameters.get("FORCE_CPU_ONLY_INPUT_TENSORS", "yes")
    if value not in {"yes", "no"}:
        raise UnsupportedError(f"Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: {value}'")


def _integer(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(f"{key} must be an integer, found '{text}'") from None
