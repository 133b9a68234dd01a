"""`file://` and plain paths: a folder of this machine, or of a volume that is mounted here."""

import os
import stat
from collections.abc import Iterator

from charonia_runtime.storage.access import Access
from charonia_runtime.storage.failures import (
    ChangedError,
    DeniedError,
    EmptyError,
    LayoutError,
    MissingError,
    StorageError,
    UnreachableError,
)
from charonia_runtime.storage.location import Location
from charonia_runtime.storage.objects import Body, StoredObject

_CHUNK = 1 << 20


class Store:
    """A folder. Links are followed; a file's tag is made of its times and its place on the disk."""

    def __init__(self, location: Location, access: Access) -> None:
        del access
        self._folder = os.path.abspath(os.path.expanduser(location.prefix))  # noqa: PTH100, PTH111 - plain strings

    def list_objects(self) -> Iterator[StoredObject]:
        if not os.path.isdir(self._folder):  # noqa: PTH112
            kind = "is no directory" if os.path.exists(self._folder) else "does not exist"  # noqa: PTH110
            raise MissingError(f"{self._folder} {kind}")
        try:
            found = False
            for item in self._list("", frozenset()):
                found = True
                yield item
            if not found:
                raise EmptyError(f"{self._folder} is empty")
        except OSError as error:
            raise self._failure(error) from error

    def open_object(self, item: StoredObject, start: int, stop: int) -> Body:
        try:
            descriptor = os.open(f"{self._folder}/{item.key}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._failure(error) from error
        return Body(self._read(descriptor, item, start, stop), lambda: os.close(descriptor))

    def close(self) -> None:
        """Nothing stays open."""

    def _list(self, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[StoredObject]:
        status = os.stat(f"{self._folder}/{prefix}")  # noqa: PTH116
        identity = status.st_dev, status.st_ino
        if identity in above:
            raise LayoutError(f"'{prefix}' leads back to a directory that it is in")
        if prefix:
            yield StoredObject(prefix, 0, "")
        with os.scandir(f"{self._folder}/{prefix}") as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        for child in children:
            key = prefix + child.name
            try:
                status = child.stat()
            except FileNotFoundError:
                continue  # gone since it was listed, or a broken link
            if stat.S_ISDIR(status.st_mode):
                yield from self._list(f"{key}/", above | {identity})
            elif stat.S_ISREG(status.st_mode):
                yield StoredObject(key, status.st_size, _tag(status))
            else:
                raise LayoutError(f"'{key}' is neither a file nor a directory")

    def _read(self, descriptor: int, item: StoredObject, start: int, stop: int) -> Iterator[bytes]:
        try:
            position = start
            while position < stop:
                chunk = os.pread(descriptor, min(_CHUNK, stop - position), position)
                if not chunk:
                    break
                position += len(chunk)
                yield chunk
            if _tag(os.fstat(descriptor)) != item.tag:
                raise ChangedError(f"'{item.key}' changed while it was copied")
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StorageError:
        where = error.filename or self._folder
        if isinstance(error, PermissionError):
            return DeniedError(f"no permission to read {where}")
        if isinstance(error, FileNotFoundError):
            return ChangedError(f"{where} vanished while it was copied")
        return UnreachableError(f"cannot read {where}: {error.strerror}")


def _tag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_ctime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
