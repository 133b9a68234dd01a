"""A cache of what texts of clients mean, which no client can fill with long ones."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

_SHORT: Final = 256
Text = TypeVar("Text", str, bytes)
Result = TypeVar("Result")


def remembering_short(function: Callable[[Text], Result], entries: int = 1024) -> Callable[[Text], Result]:
    """The function, which remembers its results for texts of up to 256 characters or bytes."""
    known = lru_cache(entries)(function)

    def call(text: Text) -> Result:
        return known(text) if len(text) <= _SHORT else function(text)

    return call
