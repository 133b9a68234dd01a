"""What a store offers: objects, their bytes, and checksums to hold them against. Implemented by each of `schemes`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self


@dataclass(frozen=True, slots=True)
class StoredObject:
    """
    One object as a listing shows it.

    A key that ends in `/` is a directory. `tag` differs as soon as the content does: an entity tag, or a file's times.
    """

    key: str
    """Relative to the repository, with `/` between its parts."""
    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class Checksum:
    """
    What the store says of a whole object's bytes.

    `algorithm` is one of `checksums.ALGORITHMS`; `part_size` belongs to `md5-parts`, the entity tag of an object that
    was uploaded in parts of so many bytes.
    """

    algorithm: str
    value: str
    part_size: int = 0


class Body:
    """
    The bytes of an object, or of a range of it, on their way. A context manager that closes the connection.

    `checksum` is of the whole object, if the store sends one.
    """

    __slots__ = ("_close", "checksum", "chunks")

    def __init__(self, chunks: Iterator[bytes], close: Callable[[], None], checksum: Checksum | None = None) -> None:
        self.chunks = chunks
        self._close = close
        self.checksum = checksum

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()


class Store(Protocol):
    """
    One repository in one store; a module of `schemes` has such a class, made as `Store(location, access)`.

    Every method blocks, may be called from several threads, and raises StorageError: UnreachableError for what
    another try may cure. Nothing is tried again here.
    """

    def list_objects(self) -> Iterator[StoredObject]:
        """Every object of the repository, directories' markers included, in any order."""

    def open_object(self, item: StoredObject, start: int, stop: int) -> Body:
        """
        The bytes of `item` from `start` up to `stop`.

        Raises ChangedError when the object is no longer the one that was listed.
        """

    def close(self) -> None:
        """Release connections."""
