"""Parallel downloads into a staging folder: large objects in parts, wrong bytes fetched again, stalls noticed."""

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from charonia_runtime.storage.failures import IntegrityError, StoppedError, UnreachableError, disk_failure
from charonia_runtime.storage.objects import Checksum, Store, StoredObject
from charonia_runtime.storage.progress import Progress
from charonia_runtime.storage.retrying import Retries
from charonia_runtime.storage.staging import Part, Staging
from charonia_runtime.storage.transfer import Integrity, Transfer

_TRIES = 3
"""How often an object whose bytes are wrong is fetched."""
_LAST_WORDS_SECONDS = 5.0
"""How long a failed download waits for its workers; one that hangs in a read is left behind."""


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """How objects are fetched."""

    parallelism: int = 8
    part_size: int = 16 << 20
    """Bytes; larger objects are fetched in parts of that size."""
    integrity: Integrity = Integrity.AUTO
    stall_timeout_seconds: float = 120


@dataclass(slots=True)
class _File:
    """An object on its way. `missing` parts are not there yet; guarded by `lock`."""

    item: StoredObject
    missing: int
    tries: int
    checksum: Checksum | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Download:
    """One run over the objects that a staging folder lacks. Its threads are daemons: a dead store holds no process."""

    def __init__(
        self, store: Store, staging: Staging, retries: Retries, options: DownloadOptions, progress: Progress
    ) -> None:
        self._staging = staging
        self._retries = retries
        self._options = options
        self._progress = progress
        self._transfer = Transfer(store, staging, options.integrity, progress, self._check)
        self._tasks: deque[tuple[_File, Part]] = deque()
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._working = 0
        self._lock = threading.Lock()

    def run(self, items: Iterable[StoredObject]) -> None:
        """Fetch `items`. Raises the first StorageError that no further try cured; whole files stay staged."""
        for item in items:
            self._plan(item)
        workers = [
            threading.Thread(target=self._work, name=f"charonia-sync-{number}", daemon=True)
            for number in range(min(self._options.parallelism, len(self._tasks)))
        ]
        self._working = len(workers)
        for worker in workers:
            worker.start()
        if workers:
            self._watch()
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        for worker in workers:
            worker.join(max(deadline - time.monotonic(), 0))
        if self._failure is not None:
            raise self._failure

    def _plan(self, item: StoredObject, tries: int = 0) -> None:
        size, step = item.size, self._options.part_size
        parts: list[Part] = [(start, min(start + step, size)) for start in range(0, size, step)] or [(0, 0)]
        present = self._staging.parts(item)
        missing = [part for part in parts if part not in present]
        file = _File(item, len(missing), tries)
        self._tasks.extend((file, part) for part in missing or [(size, size)])

    def _watch(self) -> None:
        """Wait for the workers, a failure, the order to stop, or a stall."""
        while not self._ended.wait(0.25):
            idle = self._progress.idle_seconds()
            if self._retries.stopping.is_set():
                self._fail(StoppedError("stopped before the copy was complete"))
            elif idle > self._options.stall_timeout_seconds:
                self._fail(UnreachableError(f"the download stalled: nothing arrived for {idle:.0f} seconds"))

    # --- workers ---

    def _work(self) -> None:
        try:
            while self._failure is None:
                try:
                    file, part = self._tasks.popleft()
                except IndexError:
                    break
                self._fetch(file, part)
        except OSError as error:
            self._fail(disk_failure(error))
        except BaseException as error:  # noqa: BLE001 - `run` raises it in the thread of its caller
            self._fail(error)
        with self._lock:
            self._working -= 1
            if self._working == 0:
                self._ended.set()

    def _fail(self, failure: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or failure
        self._ended.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise StoppedError("another object failed")

    def _fetch(self, file: _File, part: Part) -> None:
        item = file.item
        try:
            if part == (0, item.size):
                self._retries.run(lambda: self._transfer.whole(item))
            else:
                self._fetch_part(file, part)
        except IntegrityError:
            if file.tries + 1 >= _TRIES:
                raise
            self._staging.drop_parts(item)
            self._plan(item, file.tries + 1)

    def _fetch_part(self, file: _File, part: Part) -> None:
        """One part, and the verification of the file when it is the last; an empty part stands for that alone."""
        item, (start, stop) = file.item, part
        if start < stop:
            checksum = self._retries.run(lambda: self._transfer.part(item, start, stop))
            self._check()
            self._staging.add_part(item, part)
            with file.lock:
                file.checksum = file.checksum or checksum
                file.missing -= 1
                if file.missing:
                    return
        checksum = file.checksum or self._retries.run(lambda: self._transfer.ask_checksum(item))
        try:
            self._transfer.verify(item, checksum)
        except IntegrityError:
            self._progress.take_back(item.size)
            raise
