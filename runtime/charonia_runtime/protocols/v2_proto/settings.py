"""Messages that show and change trace and log settings (section 4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2

from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError
from charonia_runtime.core.server import LogSettings, TraceSettings
from charonia_runtime.protocols.v2_proto import kind_of, parse

_SINGLE_TRACE_VALUES = ("trace_rate", "trace_count", "log_frequency")
_LOG_KINDS = {
    "log_info": ("bool_param", "boolean"),
    "log_warning": ("bool_param", "boolean"),
    "log_error": ("bool_param", "boolean"),
    "log_verbose_level": ("uint32_param", "int32"),
    "log_format": ("string_param", "string"),
}
"""Setting → its field, and what Triton's text calls that; in the order in which Triton looks at them."""
_LOG_FORMATS = ("default", "ISO8601")


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Trace settings of a model, or of all, to show after they are changed; `values` are as the client sent them."""

    model_name: str
    values: Mapping[str, tuple[str, ...]]

    def changes(self) -> Mapping[str, tuple[str, ...] | None]:
        """
        Return the settings to change; None clears one. Unknown settings are ignored.

        Raises InvalidArgumentError or UnsupportedError.
        """
        if "trace_file" in self.values:
            raise UnsupportedError("trace file location can not be updated through network protocol")
        changes: dict[str, tuple[str, ...] | None] = {}
        for name in ("trace_level", *_SINGLE_TRACE_VALUES):
            if name not in self.values:
                continue
            values = self.values[name]
            if len(values) > 1 and name in _SINGLE_TRACE_VALUES:
                raise InvalidArgumentError(f"expect only 1 value for '{name}'")
            if name == "trace_count" and values:
                _check_count(values[0])
            changes[name] = values or None
        return changes


def decode_trace(data: bytes) -> TraceRequest:
    """Read the message only: what is wrong with a setting is said after an unknown model. Raises InternalError."""
    message = parse(service_pb2.TraceSettingRequest, data)
    return TraceRequest(message.model_name, {name: tuple(value.value) for name, value in message.settings.items()})


def encode_trace(settings: TraceSettings) -> bytes:
    response = service_pb2.TraceSettingResponse
    message = response(settings={name: response.SettingValue(value=values) for name, values in settings.items()})
    return bytes(message.SerializeToString())


def decode_log(data: bytes) -> Mapping[str, bool | int | str]:
    """The log settings to change. Unknown ones are ignored. Raises InvalidArgumentError or UnsupportedError."""
    settings = parse(service_pb2.LogSettingsRequest, data).settings
    if "log_file" in settings:
        raise UnsupportedError("log file location can not be updated through network protocol")
    changes: dict[str, bool | int | str] = {}
    for name, (kind, word) in _LOG_KINDS.items():
        if name not in settings:
            continue
        if kind_of(settings[name]) != kind:
            raise InvalidArgumentError(f"expect {word} for '{name}'")
        changes[name] = getattr(settings[name], kind)
    log_format = changes.get("log_format", "default")
    if log_format not in _LOG_FORMATS:
        raise InvalidArgumentError(f"invalid argument for log_format, got: {log_format}")
    return changes


def encode_log(settings: LogSettings) -> bytes:
    message = service_pb2.LogSettingsResponse()
    for name, value in settings.items():
        _write(message.settings[name], value)
    return bytes(message.SerializeToString())


def _write(setting: Any, value: bool | int | str) -> None:
    if isinstance(value, bool):
        setting.bool_param = value
    elif isinstance(value, int):
        setting.uint32_param = value
    else:
        setting.string_param = value


def _check_count(text: str) -> None:
    """Triton's text has a space here that its HTTP text lacks; other mistakes have the same text over both."""
    try:
        count = int(text[:32])
    except ValueError:
        return
    if -(2**31) <= count < -1:
        raise InvalidArgumentError(f"Unable to parse 'trace_count'. Expecting value >= -1, got: {text}")
