"""Which objects of a repository are wanted: patterns in the manner of shells."""

import re
from collections.abc import Sequence

from charonia_runtime.storage.failures import LocationError


class Selection:
    """
    `include` and `exclude` patterns on keys; no include means everything.

    `*` and `?` stop at `/`, `**` does not. A pattern without `/` fits any part of a key (`*.md`, `drafts`), one with
    `/` the key from its start. What fits a directory fits all that is in it.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        """Raises LocationError for an empty pattern."""
        self._include = [_compile(pattern) for pattern in include]
        self._exclude = [_compile(pattern) for pattern in exclude]

    def wants(self, key: str) -> bool:
        included = not self._include or any(pattern.match(key) for pattern in self._include)
        return included and not any(pattern.match(key) for pattern in self._exclude)


_WILD = re.compile(r"\*\*/?|\*|\?")


def _compile(pattern: str) -> re.Pattern[str]:
    body = pattern.strip("/")
    if not body:
        raise LocationError(f"the pattern '{pattern}' fits nothing")
    anchored = "/" in pattern.rstrip("/")
    expression, end = "", 0
    for wild in _WILD.finditer(body):
        expression += re.escape(body[end : wild.start()])
        expression += {"*": "[^/]*", "?": "[^/]", "**": ".*", "**/": "(?:.*/)?"}[wild.group()]
        end = wild.end()
    expression += re.escape(body[end:])
    return re.compile(("" if anchored else "(?:.*/)?") + expression + "(?:/.*)?$", re.DOTALL)
