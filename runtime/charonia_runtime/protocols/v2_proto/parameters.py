"""Parameters of inference messages: those with a meaning to the server, the model's own, and those of a response."""

from collections.abc import Mapping
from typing import Any

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, ParameterValue, RequestedOutput, SequenceId
from charonia_runtime.core.tensor import SharedMemoryRef
from charonia_runtime.core.texts import utf8_text
from charonia_runtime.protocols.v2_proto import kind_of

EMPTY_FINAL = "triton_enable_empty_final_response"
_UINT64_MASK = 2**64 - 1
"""Triton keeps signed parameters in unsigned fields; negative ones wrap around."""
_PLAIN_KINDS = {"bool_param", "int64_param", "string_param", "double_param"}
_SEQUENCE_KINDS = {
    "sequence_id": ("int64_param", "string_param"),
    "sequence_start": ("bool_param",),
    "sequence_end": ("bool_param",),
}


def read_parameters(entries: Mapping[str, Any], request: InferenceRequest) -> bool:
    """
    Fill the request's sequence, priority, timeout and parameters from its message's map.

    Returns whether the client wants the final flag of a decoupled model in a response of its own. Raises
    InvalidArgumentError.
    """
    sequence: dict[str, Any] = {}
    wants_empty_final = False
    for name, parameter in entries.items():
        kind = kind_of(parameter)
        if name in _SEQUENCE_KINDS:
            sequence[name] = _expect(name, parameter, kind, _SEQUENCE_KINDS[name])
        elif name == "priority":
            request.priority = _priority(parameter, kind)
        elif name == "timeout":
            request.timeout_us = _expect(name, parameter, kind, ("int64_param",)) & _UINT64_MASK
        elif name == EMPTY_FINAL:
            wants_empty_final = _expect(name, parameter, kind, ("bool_param",))
        elif name.startswith("triton_"):
            raise InvalidArgumentError(
                "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys "
                f"starting with 'triton_' are allowed: {EMPTY_FINAL}"
            )
        elif kind in _PLAIN_KINDS:
            request.parameters[name] = getattr(parameter, kind)
        else:
            raise InvalidArgumentError(
                f"invalid value type for '{name}' parameter, expected int64_param, bool_param, or string_param."
            )
    if sequence:
        request.sequence = _sequence(sequence)
    return wants_empty_final


def read_region(tensor: Any) -> SharedMemoryRef | None:
    """Where in shared memory an input lies or an output goes; None for neither. Raises InvalidArgumentError."""
    entries = tensor.parameters
    region = entries.get("shared_memory_region")
    if region is not None and kind_of(region) != "string_param":
        raise InvalidArgumentError(
            f"invalid value type for 'shared_memory_region' parameter for tensor '{tensor.name}', "
            "expected string_param."
        )
    offset = _region_number(tensor, "shared_memory_offset", region)
    byte_size = _region_number(tensor, "shared_memory_byte_size", region)
    if region is None:
        return None
    if byte_size is None:
        raise InvalidArgumentError(
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor "
            f"'{tensor.name}'"
        )
    return SharedMemoryRef(region.string_param, byte_size, offset or 0)


def read_output(message: Any) -> RequestedOutput:
    """A requested output. Parameters without a meaning here are ignored. Raises InvalidArgumentError."""
    if not message.parameters:
        return RequestedOutput(message.name)
    classes = 0
    classification = message.parameters.get("classification")
    if classification is not None:
        if kind_of(classification) != "int64_param":
            raise InvalidArgumentError("invalid value type for 'classification' parameter, expected int64_param")
        classes = classification.int64_param
        if classes <= 0:
            raise InvalidArgumentError("invalid value for 'classification' parameter, expected >= 0")
    region = read_region(message)
    if region is not None and classes:
        raise InvalidArgumentError("output can't set both 'shared_memory_region' and 'classification'")
    return RequestedOutput(message.name, classes, region)


def write_parameters(parameters: Mapping[str, ParameterValue], entries: Any) -> None:
    """Fill a response's map."""
    for key, value in parameters.items():
        name = utf8_text(key)
        if isinstance(value, bool):
            entries[name].bool_param = value
        elif isinstance(value, int):
            entries[name].int64_param = value
        elif isinstance(value, float):
            entries[name].double_param = value
        else:
            entries[name].string_param = utf8_text(value)


def _expect(name: str, parameter: Any, kind: str | None, allowed: tuple[str, ...]) -> Any:
    if kind not in allowed:
        raise InvalidArgumentError(f"invalid value type for '{name}' parameter, expected {' or '.join(allowed)}.")
    return getattr(parameter, kind)


def _priority(parameter: Any, kind: str | None) -> int:
    priority: int = _expect("priority", parameter, kind, ("int64_param", "uint64_param"))
    if priority < 0:
        raise InvalidArgumentError("invalid value for 'priority', expected value >= 0.")
    return priority


def _sequence(found: Mapping[str, Any]) -> SequenceId:
    correlation_id = found.get("sequence_id", 0)
    if isinstance(correlation_id, int):
        correlation_id &= _UINT64_MASK
    return SequenceId(correlation_id, found.get("sequence_start", False), found.get("sequence_end", False))


def _region_number(tensor: Any, name: str, region: Any) -> int | None:
    parameter = tensor.parameters.get(name)
    if parameter is None:
        return None
    if region is None:
        raise InvalidArgumentError(
            f"'{name}' can not be specified without 'shared_memory_region' parameter for tensor '{tensor.name}'"
        )
    if kind_of(parameter) != "int64_param":
        raise InvalidArgumentError(
            f"invalid value type for '{name}' parameter for tensor '{tensor.name}', expected int64_param."
        )
    number: int = parameter.int64_param & _UINT64_MASK
    return number
