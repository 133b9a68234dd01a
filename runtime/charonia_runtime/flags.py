"""
Command-line flags from dataclass fields: one declaration an option, in `core.frontend.option`.

The grammar is tritonserver's: `--flag value` and `--flag=value`, unambiguous prefixes, last one wins, repeatable flags
collect. Pure: text in, dataclasses out; printing and exiting are the caller's.
"""

import difflib
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, get_type_hints

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.frontend import OptionError

_TRUE = {"true", "on", "1"}
_FALSE = {"false", "off", "0"}


class UsageError(Exception):
    """The command line cannot be used. `flag` is the culprit's name, empty when there is no single one."""

    def __init__(self, message: str, flag: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.flag = flag


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Group:
    """A heading of the help text and the options dataclass whose fields are its flags."""

    title: str
    options: type


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: where its value goes and how it is read."""

    name: str
    owner: type
    field: str
    kind: Any
    text: str
    metavar: str
    default: Any
    aliases: tuple[str, ...]
    switch: bool

    @property
    def repeatable(self) -> bool:
        return bool(self.kind == tuple[str, ...])

    @property
    def pattern(self) -> str:
        """What the help shows after the flag's name."""
        if self.switch:
            return ""
        return self.metavar or f"<{_TYPE_NAMES.get(self.kind, 'string')}>"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The options of each group, the names of the flags that were given, and what else was."""

    values: dict[type, Any]
    given: tuple[str, ...]
    positions: tuple[str, ...] = ()
    """The arguments that are no flags."""

    def get(self, owner: type[T]) -> T:
        options: T = self.values[owner]
        return options


class Flags:
    """The flags of several groups; parses argument lists and renders the help."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self._flags = [flag for group in groups for flag in _flags_of(group.options)]
        self._by_name = {name: flag for flag in self._flags for name in (flag.name, *flag.aliases)}
        if len(self._by_name) != sum(1 + len(flag.aliases) for flag in self._flags):
            raise ValueError("two options share a flag name")

    def __iter__(self) -> Iterator[Flag]:
        return iter(self._flags)

    def parse(self, arguments: Sequence[str], *, positional: bool = False) -> Parsed:
        """Read an argument list; arguments that are no flags are collected or refused. Raises UsageError."""
        positions: list[str] = []
        values: dict[tuple[type, str], Any] = {}
        given: list[str] = []
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if not argument.startswith("--") or argument == "--":
                if not positional:
                    raise UsageError(f"Unexpected argument: {argument}")
                positions.append(argument)
                continue
            name, equals, value = argument[2:].partition("=")
            flag = self._find(name, argument)
            given.append(flag.name)
            key = (flag.owner, flag.field)
            if flag.switch:
                if equals:
                    raise UsageError(f"option '--{flag.name}' doesn't allow an argument", flag.name)
                values[key] = True
                continue
            if not equals and not rest:
                raise UsageError(f"option '--{flag.name}' requires an argument", flag.name)
            read = _read(flag, value if equals else rest.pop(0))
            values[key] = (*values.get(key, ()), read) if flag.repeatable else read
        return Parsed(
            {group.options: self._build(group.options, values) for group in self.groups}, tuple(given), tuple(positions)
        )

    def help(self) -> str:
        """Every flag under its heading, with its default where it has one worth saying."""
        lines: list[str] = []
        for group in self.groups:
            lines += ["", f"{group.title}:"]
            for flag in _flags_of(group.options):
                names = ", ".join(f"--{name}" for name in (flag.name, *flag.aliases))
                lines.append(f"  {names} {flag.pattern}".rstrip())
                lines += textwrap.wrap(
                    flag.text + _default_text(flag), 90, initial_indent=" " * 8, subsequent_indent=" " * 8
                )
        return "\n".join(lines)

    def _find(self, name: str, argument: str) -> Flag:
        exact = self._by_name.get(name)
        if exact is not None:
            return exact
        matches = {flag.name: flag for known, flag in self._by_name.items() if known.startswith(name)} if name else {}
        if len(matches) == 1:
            return next(iter(matches.values()))
        if matches:
            names = " ".join(f"--{found}" for found in sorted(matches))
            raise UsageError(f"option '{argument}' is ambiguous; possibilities: {names}")
        nearest = difflib.get_close_matches(name, self._by_name, n=1, cutoff=0.6)
        hint = f"; did you mean '--{nearest[0]}'?" if nearest else ""
        raise UsageError(f"unrecognized option '{argument}'{hint}")

    @staticmethod
    def _build(owner: type, values: dict[tuple[type, str], Any]) -> Any:
        own = {field: value for (holder, field), value in values.items() if holder is owner}
        try:
            return owner(**own)
        except OptionError as error:
            raise UsageError(error.message, error.flag) from error
        except InferenceError as error:
            raise UsageError(error.message) from error


def _flags_of(owner: type) -> list[Flag]:
    hints = get_type_hints(owner)
    found = []
    for field in fields(owner):
        if "text" not in field.metadata:
            continue
        option = field.metadata
        name = option["flag"] or field.name.replace("_", "-")
        found.append(
            Flag(
                name=name,
                owner=owner,
                field=field.name,
                kind=hints[field.name],
                text=option["text"],
                metavar=option["metavar"],
                default=field.default,
                aliases=option["aliases"],
                switch=option["switch"],
            )
        )
    return found


def _read(flag: Flag, text: str) -> Any:
    reader = _READERS.get(flag.kind, str)
    try:
        return reader(text)
    except ValueError as error:
        raise UsageError(str(error), flag.name) from None


def _read_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(f"invalid value for bool option: {text}")


def _read_int(text: str) -> int:
    """A decimal integer that fits 64 bits, with tritonserver's texts for what does not."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"Invalid option value. Got {text}")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"Provided option value is out of bound. Got {text}")
    return value


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"Invalid option value. Got {text}") from None


_READERS: dict[Any, Callable[[str], Any]] = {bool: _read_bool, int: _read_int, float: _read_float}
_TYPE_NAMES: dict[Any, str] = {bool: "boolean", int: "integer", float: "float", str: "string"}


def _default_text(flag: Flag) -> str:
    if flag.switch or flag.repeatable or flag.default in ("", None):
        return ""
    shown = str(flag.default).lower() if isinstance(flag.default, bool) else flag.default
    return f" Default: {shown}."
