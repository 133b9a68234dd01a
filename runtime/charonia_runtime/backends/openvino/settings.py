"""The parameters of a model's configuration → where and how openvino compiles it."""

from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.errors import InvalidArgumentError

_HINTS = ("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT")
_THREADS = ("INFERENCE_NUM_THREADS", "COMPILATION_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Settings:
    """`properties` are openvino's names and values; `extension_path` is empty where there is none."""

    device: str = "CPU"
    properties: tuple[tuple[str, str], ...] = ()
    extension_path: str = ""
    reshapes_inputs: bool = False


def read_settings(parameters: Mapping[str, str]) -> Settings:
    """Raises InvalidArgumentError for a value that is malformed."""
    return Settings(
        device=parameters.get("TARGET_DEVICE", "CPU").upper(),
        properties=tuple(_properties(parameters).items()),
        extension_path=parameters.get("CPU_EXTENSION_PATH", ""),
        reshapes_inputs=parameters.get("RESHAPE_IO_LAYERS", "").upper() == "YES",
    )


def _properties(parameters: Mapping[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    if "PERFORMANCE_HINT" in parameters:
        hint = parameters["PERFORMANCE_HINT"]
        if hint.upper() not in _HINTS:
            raise _unexpected("PERFORMANCE_HINT", f"to be {'/'.join(_HINTS)}", hint)
        properties["PERFORMANCE_HINT"] = hint.upper()
    if "NUM_STREAMS" in parameters:
        streams = parameters["NUM_STREAMS"]
        if streams.upper() not in {"AUTO", "NUMA"} and not _is_count(streams):
            raise _unexpected("NUM_STREAMS", "to be either AUTO/NUMA/<int_value>", streams)
        properties["NUM_STREAMS"] = streams.upper()
    for name in _THREADS:
        if name in parameters:
            if not _is_count(parameters[name]):
                raise _unexpected(name, "to be a non-negative number", parameters[name])
            properties[name] = parameters[name]
    if "HINT_BF16" in parameters:
        if parameters["HINT_BF16"].upper() != "YES":
            raise _unexpected("HINT_BF16", "to be YES", parameters["HINT_BF16"])
        properties["INFERENCE_PRECISION_HINT"] = "bf16"
    return properties


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _unexpected(name: str, expectation: str, value: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"expected the parameter '{name}' {expectation}, got {value.lower()}")
