"""Heads of requests that were read before. Clients repeat them byte for byte; each is parsed once."""

from typing import Final

from charonia_runtime.wires.http1.messages import Head

LONGEST_BYTES: Final = 4096
"""Longer heads are parsed each time."""
_MOST: Final = 512
_UNUSUAL: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""Fields whose requests are more than a head and a body of a known size."""


class KnownHeads:
    """The plain heads of all connections by their bytes, the blank line included; the oldest make room for new ones."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}
        self.get = self._heads.get
        """The head with these bytes; None when it was not seen before."""

    def remember(self, text: bytes, head: Head) -> None:
        """Keep what the parser made of `text`, where the same bytes can never mean anything else."""
        if not _is_plain(head) or text.count(b"\n") != text.count(b"\r\n") or text[:1].isspace():
            return
        if len(self._heads) >= _MOST:
            del self._heads[next(iter(self._heads))]
        self._heads[text] = head


def _is_plain(head: Head) -> bool:
    """Whether nothing but `content_length` bytes of body follow, and the connection then goes on."""
    return head.keep_alive and head.version == "1.1" and _UNUSUAL.isdisjoint(head.fields)
