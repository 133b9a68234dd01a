"""Reads the body of an object into frozen dataclasses, by their type hints; every fault is told with its path."""

import dataclasses
import types
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

JSON = Mapping[str, Any]
"""A part of the body that is handed to Kubernetes as it is."""

_Part = TypeVar("_Part")


class SpecError(Exception):
    """An InferenceService is not what it must be. The message names the path, the fault, what is accepted."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a whole number, for `Annotated[int, Bounds(…)]`."""

    minimum: int
    maximum: int


def read(of_type: type[_Part], body: Any, path: str = "spec") -> _Part:
    """Build `of_type`, a dataclass, from the mapping `body`. Unknown keys are left to the schema. Raises SpecError."""
    if not isinstance(body, Mapping):
        raise SpecError(path, f"must be a mapping, not {_shown(body)}")
    hints, values = _hints(cast("Hashable", of_type)), {}
    for field in dataclasses.fields(of_type):  # type: ignore[arg-type]
        key = field_key(field.name)
        if body.get(key) is not None:
            values[field.name] = _value(hints[field.name], body[key], f"{path}.{key}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise SpecError(f"{path}.{key}", "is required")
    try:
        return of_type(**values)
    except ValueError as error:
        raise SpecError(path, str(error)) from error


def departures(value: Any) -> Any:
    """
    What of a dataclass differs from its defaults, as JSON.

    A field that a later version adds is not in it as long as nobody sets it, so that this stays equal over upgrades.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {}
        for field in dataclasses.fields(value):
            own = getattr(value, field.name)
            if own != _default(field):
                found[field_key(field.name)] = departures(own)
        return found
    if isinstance(value, tuple):
        return [departures(item) for item in value]
    return value


@cache
def field_key(name: str) -> str:
    """The key of a dataclass's field in YAML: `index_url` is `indexURL`."""
    first, *rest = name.split("_")
    return first + "".join({"url": "URL", "urls": "URLs"}.get(word, word.capitalize()) for word in rest)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@cache
def _hints(of_type: Hashable) -> dict[str, Any]:
    return get_type_hints(of_type, include_extras=True)


def _value(hint: Any, value: Any, path: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _value(_without_none(arguments), value, path)
    if origin is Annotated:
        return _bounded(_value(arguments[0], value, path), arguments[1], path)
    if origin is Literal:
        return _choice(arguments, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise SpecError(path, f"must be a list, not {_shown(value)}")
        return tuple(_value(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if origin is not None:
        return _mapping(arguments[1], value, path)
    if dataclasses.is_dataclass(hint):
        return read(hint, value, path)  # type: ignore[arg-type]
    return _scalar(hint, value, path)


def _without_none(arguments: tuple[Any, ...]) -> Any:
    (only,) = (argument for argument in arguments if argument is not types.NoneType)
    return only


def _bounded(value: int, bounds: Bounds, path: str) -> int:
    if not bounds.minimum <= value <= bounds.maximum:
        raise SpecError(path, f"must be from {bounds.minimum} to {bounds.maximum}, not {value}")
    return value


def _choice(accepted: tuple[str, ...], value: Any, path: str) -> Any:
    if value not in accepted:
        raise SpecError(path, f"must be one of {', '.join(accepted)}, not {_shown(value)}")
    return value


def _mapping(of: Any, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(path, f"must be a mapping, not {_shown(value)}")
    if of is Any:
        return dict(value)
    return {str(key): _value(of, item, f"{path}[{key}]") for key, item in value.items()}


def _scalar(hint: Any, value: Any, path: str) -> Any:
    if hasattr(hint, "parse"):
        try:
            return hint.parse(value)
        except ValueError as error:
            raise SpecError(path, str(error)) from error
    names = {str: "a string", bool: "true or false", int: "a whole number"}
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise SpecError(path, f"must be {names[hint]}, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
