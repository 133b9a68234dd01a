"""What to do about errors whose text clients know from Triton, letter by letter: the log has it behind the text."""

import re
from collections.abc import Iterable


class AdviceTable:
    """Pairs of a regular expression and advice, of which the first that is found counts. Groups may fill the advice."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = tuple((re.compile(pattern), text) for pattern, text in pairs)

    def advise(self, message: str) -> str:
        """Return what to do about an error, in brackets with a space before; empty where its text says enough."""
        for pattern, advice in self._pairs:
            found = pattern.search(message)
            if found is not None:
                return f" ({advice.format(**found.groupdict())})"
        return ""
