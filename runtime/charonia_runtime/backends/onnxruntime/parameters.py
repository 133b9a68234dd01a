"""The texts of model parameters and `--backend-config` settings as values, with Triton's error texts."""

import re
from collections.abc import Mapping

from charonia_runtime.core.errors import InvalidArgumentError

_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_TRUE = frozenset({"true", "on", "1"})
_FALSE = frozenset({"false", "off", "0"})


def integer(text: str) -> int:
    """Raises InvalidArgumentError."""
    if not _INTEGER.fullmatch(text):
        raise InvalidArgumentError(f"failed to convert '{text}' to integral number")
    return int(text)


def boolean(text: str) -> bool:
    """Raises InvalidArgumentError."""
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise InvalidArgumentError(f"failed to convert '{text}' to boolean")


def integer_of(values: Mapping[str, str], key: str, default: int) -> int:
    """Value `key` as a number, `default` where it is not set. Raises InvalidArgumentError."""
    return integer(values[key]) if key in values else default


def boolean_of(values: Mapping[str, str], key: str, default: bool) -> bool:
    """Value `key` as a truth value, `default` where it is not set. Raises InvalidArgumentError."""
    return boolean(values[key]) if key in values else default
