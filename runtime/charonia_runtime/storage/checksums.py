"""Checksums that stores offer, computed over bytes that arrive in order."""

import hashlib
import zlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

from charonia_runtime.storage.failures import IntegrityError
from charonia_runtime.storage.objects import Checksum

_CRC64_ECMA = 0x142F0E1EBA9EA3693
_ALL_BITS = 0xFFFFFFFFFFFFFFFF


class Hasher(Protocol):
    """Takes bytes in order; `hexdigest` is the checksum in the form that `Checksum.value` has."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _PartedMd5:
    """The entity tag of an upload in parts: the MD5 of the parts' MD5s, and how many there are."""

    def __init__(self, part_size: int) -> None:
        self._part_size = part_size
        self._room = part_size
        self._part = hashlib.md5(usedforsecurity=False)
        self._digests: list[bytes] = []

    def update(self, data: bytes) -> None:
        rest = memoryview(data)
        while len(rest) > 0:
            self._part.update(rest[: self._room])
            taken = min(self._room, len(rest))
            rest, self._room = rest[taken:], self._room - taken
            if self._room == 0:
                self._close_part()

    def hexdigest(self) -> str:
        if self._room < self._part_size:
            self._close_part()
        return f"{hashlib.md5(b''.join(self._digests), usedforsecurity=False).hexdigest()}-{len(self._digests)}"

    def _close_part(self) -> None:
        self._digests.append(self._part.digest())
        self._part = hashlib.md5(usedforsecurity=False)
        self._room = self._part_size


class _Crc64:
    """The CRC-64 of ECMA-182, in decimal as OSS writes it."""

    def __init__(self) -> None:
        self._extend = _crc64()
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = self._extend(data, self._value)

    def hexdigest(self) -> str:
        return str(self._value)


class _Crc32:
    """The CRC-32 of zip files, in hexadecimal."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


class _Crc32c:
    """The CRC-32C of Castagnoli, in hexadecimal."""

    def __init__(self) -> None:
        import google_crc32c

        self._checksum = google_crc32c.Checksum()

    def update(self, data: bytes) -> None:
        self._checksum.update(data)

    def hexdigest(self) -> str:
        found: bytes = self._checksum.digest()
        return found.hex()


@cache
def _crc64() -> Callable[[bytes, int], int]:
    import crcmod

    made: Callable[[bytes, int], int] = crcmod.mkCrcFun(_CRC64_ECMA, initCrc=0, rev=True, xorOut=_ALL_BITS)
    return made


def crc64_is_fast() -> bool:
    """Whether crcmod has its C extension; without it a CRC-64 takes a second for each megabyte."""
    return find_spec("crcmod._crcfunext") is not None


ALGORITHMS: dict[str, Callable[[int], Any]] = {
    "md5": lambda _: hashlib.md5(usedforsecurity=False),
    "md5-parts": _PartedMd5,
    "crc32": lambda _: _Crc32(),
    "crc32c": lambda _: _Crc32c(),
    "crc64": lambda _: _Crc64(),
    "sha256": lambda _: hashlib.sha256(),
}
"""Name → what makes a hasher, given the part size."""


def hasher(checksum: Checksum) -> Hasher:
    """A hasher of the checksum's kind."""
    made: Hasher = ALGORITHMS[checksum.algorithm](checksum.part_size)
    return made


def compare(key: str, checksum: Checksum, computed: str) -> None:
    """Raises IntegrityError when the bytes are not those that the store speaks of."""
    if computed != checksum.value:
        raise IntegrityError(
            f"'{key}' is corrupted: its {checksum.algorithm} is {computed}, the store says {checksum.value}"
        )
