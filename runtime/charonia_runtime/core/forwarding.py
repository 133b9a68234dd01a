"""Client headers that become request parameters (`--http-header-forward-pattern`, `--grpc-header-forward-pattern`)."""

import re
from collections.abc import Iterable

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.core.request import ParameterValue

_CASE_SENSITIVE = "(?-i)"
_RESERVED = frozenset({
    "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output",
})  # fmt: skip


class HeaderFilter:
    """Picks the headers to forward: those whose name contains a match of the pattern."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: str, flag: str) -> None:
        """
        `pattern` ignores case unless it starts with `(?-i)`; empty forwards nothing.

        Raises OptionError, naming `flag`, when it is no regular expression.
        """
        self._pattern: re.Pattern[str] | None = None
        if not pattern:
            return
        sensitive = pattern.startswith(_CASE_SENSITIVE)
        try:
            self._pattern = re.compile(pattern.removeprefix(_CASE_SENSITIVE), 0 if sensitive else re.IGNORECASE)
        except re.error as error:
            raise OptionError(flag, f"invalid regular expression for --{flag}: {error}. Got {pattern}") from error

    def __bool__(self) -> bool:
        """Whether anything is forwarded at all."""
        return self._pattern is not None

    def forward(self, headers: Iterable[tuple[str, str]], parameters: dict[str, ParameterValue]) -> None:
        """Add matching headers to `parameters`. Raises InvalidArgumentError for names that mean something to Triton."""
        if self._pattern is None:
            return
        for name, value in headers:
            if self._pattern.search(name) is None:
                continue
            if name in _RESERVED or name.startswith("triton_"):
                raise InvalidArgumentError(f"Header '{name}' is reserved for Triton usage and cannot be forwarded.")
            parameters[name] = value
