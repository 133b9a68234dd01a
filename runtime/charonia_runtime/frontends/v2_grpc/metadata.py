"""What clients send beside their messages."""

from collections.abc import Iterable


class Metadata:
    """Keys, in lower case, and values in the order they came; binary values as the text they may be."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str | bytes]]) -> None:
        self.pairs = tuple(
            (key, value.decode(errors="replace") if isinstance(value, bytes) else value) for key, value in pairs
        )

    def find(self, key: str) -> str | None:
        """The first value of `key`, whatever the key's case; None when there is none."""
        wanted = key.lower()
        return next((value for name, value in self.pairs if name == wanted), None)
