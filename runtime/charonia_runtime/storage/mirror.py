"""The copy of a repository: list, compare, fetch what is new, verify all of it, switch in one rename."""

import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from charonia_runtime.storage.download import Download, DownloadOptions
from charonia_runtime.storage.failures import (
    ChangedError,
    LocationError,
    RevisionError,
    SpaceError,
    StorageError,
    disk_failure,
)
from charonia_runtime.storage.generations import Generation, Generations
from charonia_runtime.storage.manifest import Manifest
from charonia_runtime.storage.objects import Store
from charonia_runtime.storage.patterns import Selection
from charonia_runtime.storage.progress import Progress, size_text
from charonia_runtime.storage.retrying import Retries
from charonia_runtime.storage.staging import Staging, keep_times
from charonia_runtime.storage.sums import check_sums, parse_sums
from charonia_runtime.storage.transfer import Integrity
from charonia_runtime.storage.tree import Tree, build_tree

logger = logging.getLogger(__name__)

_LISTINGS = 5
"""How often a copy starts again because an object changed under it."""
_SPARE_BYTES = 16 << 20
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """What is copied, and on which conditions it goes live."""

    source: str
    """Names the store and the place in it; copies of another source are no copies."""
    selection: Selection = field(default_factory=Selection)
    download: DownloadOptions = field(default_factory=DownloadOptions)
    manifest: str = ""
    """Key of a SHA256SUMS list, for Integrity.MANIFEST."""
    revision: str = ""
    """Only this content may go live; empty: any."""
    size_limit: int = 0
    """Most bytes that the tree may have; 0: what the disk has room for."""
    history_limit: int = 2

    def __post_init__(self) -> None:
        if self.download.integrity is Integrity.MANIFEST and not self.manifest:
            raise LocationError("integrity Manifest needs the key of the manifest")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass led to."""

    generation: Generation
    switched: bool
    """Whether another generation is live than before."""


class Mirror:
    """
    Keeps a target in line with a store. `sync` blocks; a pass that fails or dies leaves what is live as it is.

    Passes continue where a former one ended, in this process or another.
    """

    def __init__(
        self, store: Store, generations: Generations, options: MirrorOptions, retries: Retries, progress: Progress
    ) -> None:
        self._store = store
        self._generations = generations
        self._options = options
        self._retries = retries
        self._progress = progress

    def look(self) -> Tree:
        """What the store holds now. Raises StorageError."""
        self._progress.enter("Listing")
        return self._retries.run(lambda: build_tree(self._store.list_objects(), self._options.selection))

    def is_live(self, tree: Tree) -> bool:
        """Whether the live generation is a sound copy of `tree`. Raises StorageError."""
        try:
            return self._live_copy(tree, self._generations.complete()) is not None
        except OSError as error:
            raise disk_failure(error) from error

    def sync(self) -> Outcome:
        """One pass. Raises StorageError."""
        try:
            with self._generations.locked(self._wait_for_lock):
                return self._sync()
        except OSError as error:
            raise disk_failure(error) from error

    def _wait_for_lock(self) -> None:
        self._progress.enter("Waiting for another process that copies to the same place")
        self._retries.check()
        self._retries.stopping.wait(0.2)

    def _sync(self) -> Outcome:
        self._progress.enter("Checking")
        pinned = self._pinned()
        if pinned is not None:
            return self._go_live(pinned)
        for attempt in range(1, _LISTINGS + 1):
            tree = self.look()
            try:
                generation = self._copy(tree)
            except ChangedError as error:
                if attempt == _LISTINGS:
                    raise
                logger.info("starting again: %s", error.message)
                continue
            self._refuse_unpinned(generation)
            return self._go_live(generation)
        raise AssertionError

    def _pinned(self) -> Generation | None:
        """The generation with the pinned content, if there is one already."""
        wanted = self._options.revision
        sound = (each for each in self._generations.complete() if each.manifest.revision == wanted and each.intact())
        return next(sound, None) if wanted else None

    def _copy(self, tree: Tree) -> Generation:
        """A complete generation that holds `tree`: one that is there, else a new one."""
        known = self._generations.complete()
        present = self._live_copy(tree, known) or next((each for each in known[-1:] if self._is_copy(each, tree)), None)
        if present is not None:
            return present
        usable = [each for each in known if each.manifest.source == self._options.source]
        staging = Staging(self._generations.staging, self._options.source, self._generations.boot)
        try:
            staging.open(tree, usable)
            self._refuse_without_room(tree, staging)
            self._progress.enter(
                "Downloading",
                objects=len(tree.files),
                objects_done=len(staging.files),
                bytes=tree.size,
                bytes_done=staging.fetched(tree),
            )
            missing = [item for key, item in tree.files.items() if key not in staging.files]
            Download(self._store, staging, self._retries, self._options.download, self._progress).run(missing)
        finally:
            staging.close()
        self._progress.enter("Verifying")
        return self._commit(tree, staging, known)

    def _live_copy(self, tree: Tree, known: Sequence[Generation]) -> Generation | None:
        live = self._generations.current()
        return next((each for each in known if each.name == live and self._is_copy(each, tree)), None)

    def _is_copy(self, generation: Generation, tree: Tree) -> bool:
        manifest = generation.manifest
        return manifest.source == self._options.source and manifest.holds(tree) and generation.intact()

    def _refuse_without_room(self, tree: Tree, staging: Staging) -> None:
        """Before the first byte: would the tree fit? Files that are linked from a generation need no room."""
        limit = self._options.size_limit
        if limit and tree.size > limit:
            raise SpaceError(
                f"the repository has {size_text(tree.size)}, the limit is {size_text(limit)}: raise the size limit"
            )
        missing = [item for key, item in tree.files.items() if key not in staging.files]
        blocks = sum(-(-item.size // _BLOCK) * _BLOCK for item in missing)
        present = sum(stop - start for item in missing for start, stop in staging.parts(item))
        room = os.statvfs(staging.tree)
        free = room.f_bavail * room.f_frsize
        if missing and blocks - present + _SPARE_BYTES > free:
            raise SpaceError(
                f"{size_text(blocks - present)} are to be copied to {self._generations.store}, which has room for "
                f"{size_text(free)}: give it more"
            )
        if room.f_files and len(missing) > room.f_favail:
            raise SpaceError(
                f"{len(missing)} files are to be made in {self._generations.store}, which has room for {room.f_favail}"
            )

    def _commit(self, tree: Tree, staging: Staging, known: Sequence[Generation]) -> Generation:
        files = {key: staging.files[key] for key in tree.files}
        manifest = Manifest(self._options.source, self._generations.boot, files, tree.empty_directories)
        if self._options.download.integrity is Integrity.MANIFEST:
            self._check_sums(manifest, staging)
        live = self._generations.current()
        for generation in known:
            if generation.name == live:
                keep_times(staging.tree, tree.directories(), generation.manifest.files, generation.tree)
        return self._generations.commit(manifest)

    def _check_sums(self, manifest: Manifest, staging: Staging) -> None:
        """Raises IntegrityError; the staged copy is then given up, for nothing tells which of its files is right."""
        name = self._options.manifest.strip("/")
        try:
            text = (staging.tree / name).read_text(encoding="utf-8", errors="surrogateescape")
            check_sums(manifest, parse_sums(text, name), name)
        except FileNotFoundError:
            raise LocationError(f"the repository has no manifest '{name}'") from None
        except StorageError:
            shutil.rmtree(self._generations.staging, ignore_errors=True)
            raise

    def _refuse_unpinned(self, generation: Generation) -> None:
        wanted, found = self._options.revision, generation.manifest.revision
        if wanted and wanted != found:
            raise RevisionError(f"the repository's content is {found}, not the pinned {wanted}")

    def _go_live(self, generation: Generation) -> Outcome:
        switched = self._generations.current() != generation.name
        if switched:
            self._generations.switch(generation)
        else:
            self._generations.publish()
        self._generations.prune(self._options.history_limit)
        self._progress.enter("Synced", objects=len(generation.manifest.files), bytes=generation.manifest.size)
        return Outcome(generation, switched)
