"""Paths that gateways put in front of the protocol's own."""

import re
from collections.abc import Sequence
from typing import Final

from charonia_runtime.core.frontend import OptionError

_FLAG: Final = "path-prefix"
_PREFIX: Final = re.compile(r"/(?!v2/)(?:(?!\.{1,2}/)[A-Za-z0-9._~-]+/)+")
"""With a slash at its end. No `/v2`: it would be both a prefix and a route; no `..`: clients resolve it themselves."""


class PathPrefixes:
    """The prefixes under which every route is served as well. Raises OptionError."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        found = set()
        for prefix in prefixes:
            text = prefix.rstrip("/")
            if text and not _PREFIX.fullmatch(f"{text}/"):
                raise OptionError(
                    _FLAG,
                    f"--{_FLAG} must be a path like /api/predict/name, of letters, digits and '._~-', and not in /v2. "
                    f"Got {prefix}",
                )
            if text:
                found.add(text)
        alternatives = "|".join(re.escape(text) for text in sorted(found, key=len, reverse=True))
        self.pattern = f"(?:{alternatives})?" if alternatives else ""
        """A regular expression for what a path may begin with."""
        self._prefix = re.compile(f"(?:{alternatives})(?=/)") if alternatives else None

    def without(self, path: str) -> str:
        """The path as the routes know it."""
        match = self._prefix.match(path) if self._prefix is not None else None
        return path if match is None else path[match.end() :]
