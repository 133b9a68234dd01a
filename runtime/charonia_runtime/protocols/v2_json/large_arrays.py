"""
Requests with many numbers in their JSON: from the text to arrays, without an object for each number.

What is refused here, or has a meaning that only the careful reader knows, is left to it: this is a shorter way to the
same result, never another one.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from charonia_runtime.protocols import json_text

FROM_BYTES: Final = 16 * 1024
"""Below, a reader that makes objects is as quick."""
_KEPT_PARSER_BYTES: Final = 4 * 1024 * 1024
"""A parser keeps several times the largest text that it has read."""
_SCALARS: Final = frozenset({bool, int, float, str, type(None)})
_CODES: Final = {"d": "d", "q": "i", "Q": "u"}
"""Typecodes of numbers as Python's arrays name them, and as the parser does."""


@dataclass(slots=True)
class NumberArray:
    """An array of the document that is not read yet. `element` is the parser's own."""

    element: Any

    def numbers(self, typecode: str) -> npt.NDArray[Any] | None:
        """
        The elements in row-major order whatever the nesting, as `d`, `q` or `Q`.

        None when one of them is no such number, or does not fit.
        """
        try:
            buffer = self.element.as_buffer(of_type=_CODES[typecode])
        except (TypeError, ValueError):
            return None
        return np.frombuffer(buffer, typecode)

    def values(self) -> list[Any]:
        """The array as lists and objects."""
        return _plain_list(self.element)


class LargeTextReader:
    """Reads requests, the `data` of whose inputs become `NumberArray`. Used by one thread."""

    def __init__(self) -> None:
        self._parser: Any = None

    def read(self, text: bytes) -> Any:
        """What `json_text.read` makes of the text, but for the `data`. Raises InternalError for malformed text."""
        import simdjson  # a large library, and most servers never see a large text

        kept = len(text) <= _KEPT_PARSER_BYTES
        if self._parser is None or not kept:
            parser = simdjson.Parser()
            self._parser = parser if kept else self._parser
        else:
            parser = self._parser
        try:
            document = _document(parser.parse(text))
        except (ValueError, RuntimeError, TypeError, AttributeError):
            self._parser = None  # it may still be held by what it made
            return json_text.read(text)
        if json_text.member_count(document) != text.count(b":"):  # repeated keys, of which this parser takes the last
            return json_text.read(text)
        return document


def _document(root: Any) -> dict[str, Any]:
    """The document's members. Raises TypeError or AttributeError where it has another form."""
    members = {key: _plain(root[key]) for key in root.keys() if key != "inputs"}  # noqa: SIM118 - no dictionary
    if "inputs" in root:
        members["inputs"] = [_input(entry) for entry in root["inputs"]]
    return members


def _input(entry: Any) -> dict[str, Any]:
    members = {}
    for key in entry.keys():  # noqa: SIM118
        value = entry[key]
        is_data = key == "data" and hasattr(value, "as_buffer")
        members[key] = NumberArray(value) if is_data else _plain(value)
    return members


def _plain(value: Any) -> Any:
    """
    Return a value as Python's own objects.

    The parser's own `as_list` and `as_dict` are never called: they make room for at most 0xFFFFFF elements and write
    behind it when there are more.
    """
    if hasattr(value, "as_dict"):
        return {key: _plain(value[key]) for key in value.keys()}  # noqa: SIM118 - no dictionary
    return _plain_list(value) if hasattr(value, "as_list") else value


def _plain_list(array: Any) -> list[Any]:
    """Return the parser's array as a list."""
    values = list(array)
    if set(map(type, values)) <= _SCALARS:
        return values
    return [_plain(value) for value in values]
