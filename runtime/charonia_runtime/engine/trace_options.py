"""What the command line says about tracing: the values that the trace settings start with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from charonia_runtime.core.frontend import OptionError, option

LEVELS: Final = ("TIMESTAMPS", "TENSORS")
"""What may be traced, in the order that answers show it; nothing of it is `OFF`."""

_NUMBERS: Final = frozenset({"rate", "count", "triton,log-frequency"})
_LEADING_NUMBER: Final = re.compile(r"\s*([+-]?[0-9]+)")
_MOST_DIGITS: Final = 20
_LEVEL_WORDS: Final = {
    "off": "", "false": "", "timestamps": "TIMESTAMPS", "tensors": "TENSORS",
    "true": "TIMESTAMPS", "on": "TIMESTAMPS", "min": "TIMESTAMPS", "max": "TIMESTAMPS",
}  # fmt: skip
_OPENTELEMETRY_DEFAULTS: Final = {
    "bsp_max_export_batch_size": ("512",),
    "bsp_schedule_delay": ("5000",),
    "bsp_max_queue_size": ("2048",),
}


class _Deprecated(NamedTuple):
    """A flag that `--trace-config` replaces, and the words of its two warnings."""

    flag: str
    setting: str
    value: str
    overridden: str


_DEPRECATED: Final = (
    _Deprecated("trace-file", "triton,file", "<filepath>", "file"),
    _Deprecated("trace-level", "level", "<OFF|TIMESTAMPS|TENSORS>", "level"),
    _Deprecated("trace-rate", "rate", "<rate value>", "rate value"),
    _Deprecated("trace-count", "count", "<count value>", "count"),
    _Deprecated("trace-log-frequency", "triton,log-frequency", "<log frequency value>", "log-frequency"),
)


@dataclass(frozen=True, slots=True)
class TraceValues:
    """The settings that may change while the server runs. `levels` are some of `LEVELS`, in their order."""

    levels: tuple[str, ...] = ()
    rate: int = 1000
    """Every so many-th request is traced."""
    count: int = -1
    """So many requests are traced; -1 for no limit."""
    log_frequency: int = 0
    """Traces for each file; 0 for one file in all."""


@dataclass(frozen=True, slots=True)
class TraceStart:
    """How tracing starts: values that may change, and the mode, file and settings of the mode, which may not."""

    values: TraceValues = TraceValues()
    mode: str = "triton"
    file: str = ""
    mode_settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Flags of the group Tracing, and the deprecated ones. Raises OptionError for a malformed value."""

    trace_config: tuple[str, ...] = option(
        (),
        "Trace setting: level=OFF|TIMESTAMPS|TENSORS, rate, count or mode=triton|opentelemetry, or a setting of one "
        "mode, as triton,file=<path>, triton,log-frequency=<n> or opentelemetry,url=<url>. May be given several times.",
        metavar="<mode>,<setting>=<value>",
    )
    trace_file: str = option("", "Deprecated: use --trace-config triton,file=<path>.", metavar="<path>")
    trace_level: tuple[str, ...] = option((), "Deprecated: use --trace-config level=<level>.", metavar="<level>")
    trace_rate: str = option("", "Deprecated: use --trace-config rate=<n>.", metavar="<integer>")
    trace_count: str = option("", "Deprecated: use --trace-config count=<n>.", metavar="<integer>")
    trace_log_frequency: str = option(
        "", "Deprecated: use --trace-config triton,log-frequency=<n>.", metavar="<integer>"
    )
    span_batches: Mapping[str, str] = field(default_factory=dict)
    """What the environment says of settings of `opentelemetry` that the flags leave open."""

    def __post_init__(self) -> None:
        self.start  # noqa: B018 - refuse malformed values now

    @property
    def start(self) -> TraceStart:
        """What the flags amount to; `--trace-config` wins over the deprecated ones."""
        given = self._given()
        mode = _last(given, "mode", "triton").lower()
        file = _last(given, "triton,file", self.trace_file)
        levels = {_LEVEL_WORDS[word.lower()] for word in given.pop("level", self.trace_level)}
        values = TraceValues(
            levels=tuple(level for level in LEVELS if level in levels),
            rate=_number(_last(given, "rate", self.trace_rate), 1000) % 2**32,
            count=_number(_last(given, "count", self.trace_count), -1),
            log_frequency=_number(_last(given, "triton,log-frequency", self.trace_log_frequency), 0) % 2**32,
        )
        own = {name.partition(",")[2]: tuple(texts) for name, texts in given.items() if name.startswith(f"{mode},")}
        if mode == "opentelemetry":
            for name, text in self.span_batches.items():
                _check(f"trace-config opentelemetry,{name}", f"opentelemetry,{name}", text, f"OTEL_{name.upper()}: ")
            theirs = {name: (text,) for name, text in self.span_batches.items()}
            own |= {name: text for name, text in {**_OPENTELEMETRY_DEFAULTS, **theirs}.items() if name not in own}
        return TraceStart(values, mode, file, own)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Deprecated flags that were given, in Triton's words, and text behind numbers, which Triton ignores too."""
        given = self._given()
        used = [old for old in _DEPRECATED if self._texts(old)]
        return (
            *(
                f"Warning: '--{old.flag}' has been deprecated and will be removed in future releases. Please use "
                f"'--trace-config {old.setting}={old.value} instead."
                for old in used
            ),
            *(
                f"Warning: Overriding deprecated '--{old.flag}' in favor of provided {old.overridden} in "
                "--trace-config!"
                for old in used
                if old.setting in given
            ),
            *(
                f"Warning: '--trace-config {name}={text}' is read as {_number(text, 0)}: give each setting a "
                "--trace-config of its own"
                for name, texts in given.items()
                if name in _NUMBERS
                for text in texts
                if not _LEADING_NUMBER.fullmatch(text)
            ),
        )

    def _given(self) -> dict[str, list[str]]:
        """Setting, with its mode and a comma in front where it has one, to the values given, all checked."""
        for old in _DEPRECATED:
            for text in self._texts(old):
                _check(old.flag, old.setting, text)
        given: dict[str, list[str]] = {}
        for name, text in map(_split, self.trace_config):
            _check(f"trace-config {name}", name, text)
            given.setdefault(name, []).append(text)
        return given

    def _texts(self, old: _Deprecated) -> tuple[str, ...]:
        """What was given for a deprecated flag."""
        value = getattr(self, old.flag.replace("-", "_"))
        return value if isinstance(value, tuple) else (value,) if value else ()


def _split(config: str) -> tuple[str, str]:
    """One `--trace-config` value: its setting, the mode in front, and the text."""
    front, equals, text = config.partition("=")
    mode, comma, setting = front.partition(",")
    if not equals:
        raise OptionError(
            "trace-config", f"--trace-config option format is '<trace mode>,<setting>=<value>'. Got {config}"
        )
    if not comma:
        return front, text
    if not mode:
        raise OptionError(
            "trace-config",
            "No trace mode specified. --trace-config option format is <trace mode>,<setting>=<value> or "
            f"<setting>=<value>. Got {config}",
        )
    _check_mode("trace-config", mode)
    return f"{mode.lower()},{setting}", text


def _check(flag: str, setting: str, text: str, source: str = "") -> None:
    """
    Raise OptionError where `text` is no value of a setting; settings that Triton does not know take anything.

    `source` is where it comes from if it was no flag.
    """
    match setting:
        case "mode":
            _check_mode(flag, text)
        case "level":
            if text.lower() not in _LEVEL_WORDS:
                raise OptionError(flag, f"invalid value for trace level option: {text}")
        case _ if setting in _NUMBERS:
            found = _LEADING_NUMBER.match(text)
            if found is None:
                raise OptionError(flag, f"Invalid option value. Got {text}")
            if len(found[1]) > _MOST_DIGITS or not -(2**31) <= int(found[1]) < 2**31:
                raise OptionError(flag, f"Provided option value is out of bound. Got {text}")
        case _ if setting.partition(",")[2] in _OPENTELEMETRY_DEFAULTS:
            if not (text.isascii() and text.isdecimal() and 0 < int(text[:_MOST_DIGITS]) < 2**31):
                raise OptionError(
                    flag, f"{source}Invalid option value: expected an integer from 1 to 2147483647. Got {text}"
                )
        case _:
            pass


def _number(text: str, otherwise: int) -> int:
    """Return the number that `text` begins with, as C's `stoi` reads it and so Triton; `otherwise` for no text."""
    found = _LEADING_NUMBER.match(text)
    return int(found[1]) if found else otherwise


def _check_mode(flag: str, mode: str) -> None:
    if mode.lower() not in {"triton", "opentelemetry"}:
        raise OptionError(
            flag,
            f'invalid value for trace mode option: {mode}. Available options are "triton" and "opentelemetry"',
        )


def _last(given: dict[str, list[str]], name: str, otherwise: str) -> str:
    return given.pop(name, [otherwise])[-1]
