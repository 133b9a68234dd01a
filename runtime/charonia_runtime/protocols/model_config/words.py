"""The words of configuration documents that stand for members of our enumerations."""

from enum import Enum
from typing import TypeVar

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

_Word = TypeVar("_Word", bound=Enum)


def word(kind: type[_Word], value: str | int, field: str) -> _Word:
    """
    The member of an enumeration whose value a document gives.

    Raises InvalidArgumentError naming `field` for the numbers without a name that protobuf lets pass.
    """
    try:
        return kind(value)
    except ValueError:
        accepted = ", ".join(str(member.value) for member in kind)
        raise InvalidArgumentError(f"unknown value {value} of '{field}', accepted are {accepted}") from None


def datatype_of(value: str | int) -> DataType:
    """A tensor's type; INVALID where a document gives none or a number without a name."""
    return DataType.from_config(value) if isinstance(value, str) else DataType.INVALID
