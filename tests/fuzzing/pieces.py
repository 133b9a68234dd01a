"""How an input becomes what a socket gives: its first byte says in how large pieces."""

from collections.abc import Iterator

_SIZES = (1, 2, 7, 64, 1000, 65536)


def pieces_of(data: bytes) -> Iterator[bytes]:
    """The input without its first byte, cut."""
    size = _SIZES[data[0] % len(_SIZES)] if data else 1
    for start in range(1, len(data), size):
        yield data[start : start + size]
