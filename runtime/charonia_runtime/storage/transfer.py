"""One object's way to the disk: its bytes are fetched, counted, hashed while they arrive or later, and verified."""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NoReturn

from charonia_runtime.storage.checksums import Hasher, compare, hasher
from charonia_runtime.storage.failures import IntegrityError, NoChecksumError, UnreachableError
from charonia_runtime.storage.manifest import CopiedFile
from charonia_runtime.storage.objects import Body, Checksum, Store, StoredObject
from charonia_runtime.storage.progress import Progress
from charonia_runtime.storage.staging import Part, Staging

_CHUNK = 1 << 20


class Integrity(Enum):
    """What a file's bytes are held against."""

    AUTO = "Auto"
    """The checksum that the store offers, and always the size."""
    SIZE = "Size"
    CHECKSUM = "Checksum"
    """As Auto, and an object without a checksum is refused."""
    MANIFEST = "Manifest"
    """As Auto, and a list of SHA-256 in the repository."""


class Transfer:
    """
    Moves objects from a store to a staging folder; safe to use from several threads.

    `check` is called before each write and raises to end the transfer. Methods raise StorageError: UnreachableError
    for what another try may cure, IntegrityError for wrong bytes; OSError when the disk refuses.
    """

    def __init__(
        self, store: Store, staging: Staging, integrity: Integrity, progress: Progress, check: Callable[[], None]
    ) -> None:
        self._store = store
        self._staging = staging
        self._integrity = integrity
        self._progress = progress
        self._check = check

    def whole(self, item: StoredObject) -> None:
        """An object in one request, hashed while it arrives."""
        path = self._staging.path(item.key)
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - plain strings: there may be thousands of files
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        try:
            content = hashlib.sha256()
            if item.size:
                self._receive(item, descriptor, content)
            modified_ns = os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
        self._finish(item, content, modified_ns)

    def part(self, item: StoredObject, start: int, stop: int) -> Checksum | None:
        """The bytes of a range, into their place in the file. Returns the whole object's checksum, if it came along."""
        path = self._staging.path(item.key)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(descriptor).st_size != item.size:
                os.ftruncate(descriptor, item.size)
            with self._store.open_object(item, start, stop) as body:
                self._copy(item, body, descriptor, (start, stop), ())
                return body.checksum
        finally:
            os.close(descriptor)

    def ask_checksum(self, item: StoredObject) -> Checksum | None:
        """The checksum of an object all of whose parts were fetched by a process before this one."""
        with self._store.open_object(item, 0, 1) as body:
            for _ in body.chunks:
                pass
            return body.checksum

    def verify(self, item: StoredObject, offered: Checksum | None) -> None:
        """Every part is there: read the file once, from the page cache, and note that it is whole."""
        content = hashlib.sha256()
        checksum = self._promised(item, offered)
        hashers = _hashers(content, checksum)
        with open(self._staging.path(item.key), "rb", buffering=0) as copied:  # noqa: PTH123
            while chunk := copied.read(_CHUNK):
                self._check()
                self._progress.add()
                for each in hashers:
                    each.update(chunk)
            if checksum:
                compare(item.key, checksum, hashers[-1].hexdigest())
            os.fchmod(copied.fileno(), 0o444)
            modified_ns = os.fstat(copied.fileno()).st_mtime_ns
        self._finish(item, content, modified_ns)

    def _receive(self, item: StoredObject, descriptor: int, content: Hasher) -> None:
        with self._store.open_object(item, 0, item.size) as body:
            checksum = self._promised(item, body.checksum)
            hashers = _hashers(content, checksum)
            self._copy(item, body, descriptor, (0, item.size), hashers)
        if checksum:
            try:
                compare(item.key, checksum, hashers[-1].hexdigest())
            except IntegrityError:
                self._progress.take_back(item.size)
                raise

    def _copy(self, item: StoredObject, body: Body, descriptor: int, part: Part, hashers: Sequence[Hasher]) -> None:
        """Write what arrives to its place. Raises UnreachableError for fewer or more bytes than `part` has."""
        start, stop = part
        position = start
        try:
            for chunk in body.chunks:
                self._check()
                if position + len(chunk) > stop:
                    _refuse_length(item, position + len(chunk) - start, stop - start)
                _write(descriptor, chunk, position)
                position += len(chunk)
                self._progress.add(received=len(chunk))
                for each in hashers:
                    each.update(chunk)
            if position < stop:
                _refuse_length(item, position - start, stop - start)
        except UnreachableError:
            self._progress.take_back(position - start)
            raise

    def _promised(self, item: StoredObject, offered: Checksum | None) -> Checksum | None:
        """What the file is to be held against."""
        if self._integrity is Integrity.SIZE:
            return None
        if offered is None and self._integrity is Integrity.CHECKSUM:
            raise NoChecksumError(f"the store offers no checksum of '{item.key}', and one is asked for")
        return offered

    def _finish(self, item: StoredObject, content: Hasher, modified_ns: int) -> None:
        self._check()
        self._staging.add_file(CopiedFile(item.key, item.size, item.tag, content.hexdigest(), modified_ns))
        self._progress.add(objects=1)


def _hashers(content: Hasher, checksum: Checksum | None) -> list[Hasher]:
    """What hashes a file: the SHA-256 of its content, and last what the store's checksum is compared with."""
    return [content] if checksum is None or checksum.algorithm == "sha256" else [content, hasher(checksum)]


def _refuse_length(item: StoredObject, received: int, expected: int) -> NoReturn:
    raise UnreachableError(f"the answer for '{item.key}' has {received} bytes instead of {expected}")


def _write(descriptor: int, chunk: bytes, position: int) -> None:
    rest = memoryview(chunk)
    while rest:
        written = os.pwrite(descriptor, rest, position)
        rest, position = rest[written:], position + written
