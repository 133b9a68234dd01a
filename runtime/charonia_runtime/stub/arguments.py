"""What models may pass where Triton's module, made of C++, wants texts, numbers and lists."""

from collections.abc import Callable
from operator import index
from typing import Any, TypeVar

Kind = TypeVar("Kind")
_HUGE = 1 << 64


def text(value: Any) -> str:
    """A plain `str`. Bytes are text too: models pass on elements of string tensors. Raises TypeError for others."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    raise TypeError(f"expected str, found {type(value)}")


def whole_number(least: int, limit: int) -> Callable[[Any], int]:
    """Makes plain numbers from `least` to below `limit` of all that is a whole number, numpy's too."""

    def number(value: Any) -> int:
        plain = index(value)
        if not least <= plain < limit:
            raise TypeError(f"expected a number from {least} to {limit - 1}, found {plain}")
        return plain

    return number


def member(value: Any, kind: type[Kind]) -> Kind:
    """A member of an enumeration. Raises TypeError for anything else, its number too."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a {kind.__name__}, found {type(value)}")
    return value


version = whole_number(-_HUGE // 2, _HUGE // 2)
flag_bits = whole_number(0, 1 << 32)
microseconds = whole_number(0, _HUGE)


def items(value: Any) -> list[Any]:
    """The items of a sequence. Raises TypeError for what is none: texts, sets, generators and dictionaries."""
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__getitem__"):
        raise TypeError(f"expected a list, found {type(value)}")
    return list(value)


def correlation_id(value: Any) -> int | str:
    """A sequence's id. Raises TypeError for no number and no text, RuntimeError for numbers that no id may be."""
    if isinstance(value, str):
        return text(value)
    if not isinstance(value, int):
        raise TypeError("Correlation ID must be integer or string")
    if not 0 <= value < _HUGE:
        raise RuntimeError(
            "Unable to cast Python instance to C++ type (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug "
            "mode for details)"
        )
    return int(value)
