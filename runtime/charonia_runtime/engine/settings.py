"""
The settings that clients may change while the server runs: of traces, for all models or for one, and of the log.

Values arrive as text or as numbers and booleans; that they have the right type on the wire is the codecs' business, as
are the two texts that HTTP words differently (`trace_count` below -1 and an unknown `log_format`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError
from charonia_runtime.core.server import LogSettings, TraceSettings
from charonia_runtime.engine.trace_options import LEVELS, TraceStart, TraceValues
from charonia_runtime.engine.tracing.sampling import Sampler
from charonia_runtime.engine.tracing.tracer import Tracer
from charonia_runtime.logs import Log

_INTEGER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_RANGES: Final = {
    "trace_rate": "[ 0, 4294967295 ]", "trace_count": "[ -1, 2147483647 ]", "log_frequency": "[ 0, 4294967295 ]",
}  # fmt: skip
_FIELDS: Final = {
    "trace_level": "levels", "trace_rate": "rate", "trace_count": "count", "log_frequency": "log_frequency",
}  # fmt: skip

_Overrides = dict[str, Any]
"""Fields of `TraceValues` that a client has set; the others follow what is below."""


class SettingsStore:
    """
    The engine's `core.server.Settings`. Used on the event loop's thread.

    Three layers make a model's trace settings: the command line, what clients set for all models, what they set for
    it. `is_ready` tells whether a model of that name serves. `tracer` obeys the settings.
    """

    def __init__(
        self, log: Log, trace: TraceStart, is_ready: Callable[[str], bool], tracer: Tracer | None = None
    ) -> None:
        self._log = log
        self._is_ready = is_ready
        self._start = trace
        self._for_all: _Overrides = {}
        self._for_model: dict[str, _Overrides] = {}
        self._samplers: dict[str, Sampler] = {}
        """One for all models, under the empty name, and one for each model with settings of its own."""
        self._tracer = tracer
        if tracer is not None:
            tracer.use(self)

    async def trace(self, model: str = "") -> TraceSettings:
        self._check_model(model)
        return self._render(replace(self.trace_values(model), count=self.sampler(model).left))

    @property
    def traces(self) -> bool:
        """Whether the trace level of any model is not OFF."""
        return any(self.trace_values(model).levels for model in ("", *self._for_model))

    def sampler(self, model: str) -> Sampler:
        """What counts the model's requests: together with those of all others that have no settings of their own."""
        key = model if model in self._for_model else ""
        found = self._samplers.get(key)
        if found is None:
            found = self._samplers[key] = Sampler(self.trace_values(key))
        return found

    def trace_values(self, model: str = "") -> TraceValues:
        """What holds for a model now, or for those without settings of their own."""
        return replace(self._start.values, **{**self._for_all, **self._for_model.get(model, {})})

    async def update_trace(self, changes: Mapping[str, Sequence[str] | None], model: str = "") -> TraceSettings:
        self._check_model(model)
        overrides = self._for_model.get(model, {}) if model else self._for_all
        changed = {**overrides, **_parse_trace(changes)}
        wanted = {field: value for field, value in changed.items() if value is not None}
        below = self.trace_values() if model else self._start.values
        self._check_trace(replace(below, **wanted))
        if not model:
            self._for_all = wanted
        elif wanted:
            self._for_model[model] = wanted
        else:
            self._for_model.pop(model, None)
        self._count_anew(model)
        return await self.trace(model)

    def _count_anew(self, model: str) -> None:
        """Changed settings begin to count at once: those of one model, or all, which may follow the common ones."""
        replaced = [self._samplers.pop(key) for key in list(self._samplers) if not model or key == model]
        if self._tracer is not None:
            self._tracer.settings_changed(replaced)

    async def log(self) -> LogSettings:
        switches = self._log.switches
        return {
            "log_file": self._log.file,
            "log_info": switches.info,
            "log_warning": switches.warning,
            "log_error": switches.error,
            "log_verbose_level": switches.verbose_level,
            "log_format": switches.line_format,
        }

    async def update_log(self, changes: Mapping[str, bool | int | str]) -> LogSettings:
        if "log_file" in changes:
            raise UnsupportedError("log file location can not be updated through network protocol")
        switches: dict[str, Any] = {
            name: changes[f"log_{name}"] for name in ("info", "warning", "error") if f"log_{name}" in changes
        }
        if "log_verbose_level" in changes:
            level = int(changes["log_verbose_level"]) % 2**32
            switches["verbose_level"] = level if level < 2**31 else 0
        self._log.switches = replace(self._log.switches, **switches)
        if "log_format" in changes:
            self._log.switches = replace(self._log.switches, line_format=str(changes["log_format"]))
        return await self.log()

    def _check_model(self, model: str) -> None:
        if model and not self._is_ready(model):
            raise InvalidArgumentError(f"Request for unknown model : {model}")

    def _check_trace(self, values: TraceValues) -> None:
        """Refuse settings that would trace and cannot, as Triton does; those that trace nothing may be anything."""
        if not values.levels or self._start.mode != "triton":
            return
        if values.rate == 0:
            raise InvalidArgumentError("Attempting to set invalid trace setting :sample rate must be non-zero")
        if not self._start.file:
            raise InvalidArgumentError("Attempting to set invalid trace setting :trace file name is not given")

    def _render(self, values: TraceValues) -> TraceSettings:
        settings = {
            "trace_level": values.levels or ("OFF",),
            "trace_rate": (str(values.rate),),
            "trace_count": (str(values.count),),
        }
        if self._start.mode == "triton":
            settings |= {"log_frequency": (str(values.log_frequency),), "trace_file": (self._start.file,)}
        return {**settings, "trace_mode": (self._start.mode,), **self._start.mode_settings}


def _parse_trace(changes: Mapping[str, Sequence[str] | None]) -> _Overrides:
    """Changes by field; None clears one. Settings that do not exist change nothing. Raises InvalidArgumentError."""
    if "trace_file" in changes:
        raise UnsupportedError("trace file location can not be updated through network protocol")
    parsed: _Overrides = {}
    for setting, field in _FIELDS.items():
        if setting not in changes:
            continue
        texts = changes[setting]
        if texts is None:
            parsed[field] = None
        elif setting == "trace_level":
            parsed.update(_parse_levels(texts))
        else:
            parsed[field] = _parse_number(setting, texts)
    return parsed


def _parse_levels(texts: Sequence[str]) -> _Overrides:
    """The levels named; words that Triton does not know name nothing, and nothing at all is no change."""
    if "OFF" in texts:
        if len(texts) > 1:
            raise InvalidArgumentError("Expect only one trace level 'OFF' is specified")
        return {"levels": ()}
    levels = tuple(level for level in LEVELS if level in texts)
    return {"levels": levels} if levels else {}


def _parse_number(setting: str, texts: Sequence[str]) -> int:
    """A number read as C does: leading spaces and what follows the digits do not matter, unsigned ones wrap around."""
    if len(texts) != 1:
        raise InvalidArgumentError(f"expect only 1 value for '{setting}'")
    found = _INTEGER.match(texts[0])
    if found is None:
        raise InvalidArgumentError(f"Unable to parse '{setting}', got: {texts[0]}")
    digits = found[1]
    value = int(digits) if len(digits.lstrip("+-0")) < 11 else 2**31
    if not -(2**31) <= value < 2**31:
        raise InvalidArgumentError(
            f"Unable to parse '{setting}', value is out of range {_RANGES[setting]}, got: {texts[0]}"
        )
    if setting != "trace_count":
        return value % 2**32
    if value < -1:
        raise InvalidArgumentError(f"Unable to parse 'trace_count'. Expecting value >= -1, got: {texts[0]}")
    return value
