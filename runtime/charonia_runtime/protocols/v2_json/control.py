"""
The JSON requests of the control routes: repository, settings, shared memory.

Each function takes a body and raises InferenceError with Triton's text for the first fault.
"""

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charonia_runtime.core.errors import (
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
)
from charonia_runtime.protocols.json_text import (
    as_array,
    as_bool,
    as_string,
    as_unsigned,
    member,
    pairs_of,
    read,
)

CUDA_HANDLE_BYTES = 64
_FILE = "file:"
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_LOG_FORMATS = ("default", "ISO8601")
_LOG_SWITCHES = ("log_info", "log_warning", "log_error")
_TRACE_NUMBERS = ("trace_rate", "trace_count", "log_frequency")
_NEGATIVE = re.compile(r"[ \t\n\v\f\r]*-0*([1-9][0-9]{0,9})(?![0-9])")


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What `load` replaces: the configuration, as JSON text, and files by their path under the model's folder."""

    config: str | None = None
    files: Mapping[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class SystemRegistration:
    key: str
    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class CudaRegistration:
    raw_handle: bytes
    device_id: int
    byte_size: int


def decode_index(body: bytes, *, newest_rules: bool = True) -> bool:
    """Whether only models that are ready shall be listed; anything but an object filters nothing."""
    document = read(body) if body else None
    ready = document.get("ready", False) if isinstance(document, dict) else False
    if newest_rules and not isinstance(ready, bool):
        raise InvalidArgumentError("Invalid value for 'ready': expected a boolean")
    return as_bool(ready)


def decode_load(body: bytes) -> LoadRequest:
    config: str | None = None
    files: dict[str, bytes] = {}
    for key, value in _parameters(body):
        text = as_string(value)
        if key == "config":
            config = text
        elif key.startswith(_FILE):
            files[key.removeprefix(_FILE)] = decode_base64(text)
        else:
            raise InternalError("unexpected error on creating Triton parameter")
    return LoadRequest(config, files or None)


def decode_unload(body: bytes) -> bool:
    """Whether models that only this one needed shall go as well."""
    parameters = dict(reversed(_parameters(body)))
    if "unload_dependents" not in parameters:
        return False
    try:
        return as_bool(parameters["unload_dependents"])
    except InferenceError as error:
        raise error.with_prefix("Unable to parse 'unload_dependents': ") from None


def decode_trace_changes(body: bytes) -> Mapping[str, Sequence[str] | None]:
    """Setting → its new values, None to clear it. Settings that do not exist are left out."""
    document = read(body)
    if not isinstance(document, dict):
        return {}
    if "trace_file" in document:
        raise UnsupportedError("trace file location can not be updated through network protocol")
    changes: dict[str, Sequence[str] | None] = {}
    if "trace_level" in document:
        levels = document["trace_level"]
        changes["trace_level"] = None if levels is None else [as_string(level) for level in as_array(levels)]
    for setting in _TRACE_NUMBERS:
        if setting in document:
            value = document[setting]
            changes[setting] = None if value is None else [as_string(value)]
    count = changes.get("trace_count")
    if count and _is_below_minus_one(count[0]):
        raise InvalidArgumentError(f"Unable to parse 'trace_count'. Expecting value >= -1, got:{count[0]}")
    return changes


def decode_log_changes(body: bytes) -> Iterator[Mapping[str, bool | int | str]]:
    """The changes one by one, in Triton's order; a fault is raised in its turn, when those before it are applied."""
    return _log_changes(read(body))


def _log_changes(document: Any) -> Iterator[Mapping[str, bool | int | str]]:
    if not isinstance(document, dict):
        return
    given = {key: value for key, value in document.items() if value is not None}
    if "log_file" in given:
        yield {"log_file": as_string(given["log_file"])}
    for switch in _LOG_SWITCHES:
        if switch in given:
            yield {switch: as_bool(given[switch])}
    if "log_verbose_level" in given:
        yield {"log_verbose_level": as_unsigned(given["log_verbose_level"])}
    if "log_format" in given:
        yield {"log_format": _log_format(given["log_format"])}


def decode_system_registration(body: bytes) -> SystemRegistration:
    document = read(body)
    _require(document, ("key", "byte_size"))
    offset = as_unsigned(document["offset"]) if "offset" in document else 0
    return SystemRegistration(as_string(document["key"]), offset, as_unsigned(document["byte_size"]))


def decode_cuda_registration(body: bytes) -> CudaRegistration:
    document = read(body)
    _require(document, ("raw_handle",))
    handle = as_string(member(document["raw_handle"], "b64"))
    byte_size = as_unsigned(member(document, "byte_size"))
    device_id = as_unsigned(member(document, "device_id"))
    raw_handle = decode_base64(handle)
    if len(raw_handle) != CUDA_HANDLE_BYTES:
        raise InvalidArgumentError("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
    return CudaRegistration(raw_handle, device_id, byte_size)


def decode_base64(text: str) -> bytes:
    """Lenient as Triton is: characters that are not base64 are skipped, an incomplete last group is dropped."""
    digits = _NOT_BASE64.sub(b"", text.encode("utf-8", "surrogateescape"))
    rest = len(digits) % 4
    if rest == 1:
        digits = digits[:-1]
    return binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))


def _parameters(body: bytes) -> list[tuple[str, Any]]:
    """The members of the body's `parameters`; none where there is no body, or no such key."""
    document = read(body) if body else None
    if not isinstance(document, dict) or "parameters" not in document:
        return []
    return pairs_of(document["parameters"])


def _require(document: Any, fields: Sequence[str]) -> None:
    for field in fields:
        if not isinstance(document, dict) or field not in document:
            raise InvalidArgumentError(f"Shared memory register request has no '{field}' field")


def _log_format(value: Any) -> str:
    text = as_string(value)
    if text not in _LOG_FORMATS:
        raise UnavailableError(f"invalid argument for --log_format, got: {text}")
    return text


def _is_below_minus_one(text: str) -> bool:
    """Whether the text is a number below -1, in the range of Triton's integers."""
    match = _NEGATIVE.match(text)
    return match is not None and 1 < int(match[1]) <= 2**31
