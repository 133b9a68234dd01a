"""
The copies on disk, and which of them is live.

    STORE/generations/000007-3f2a91c04b7d/{tree/, manifest}    a complete, verified copy
    STORE/current -> generations/000007-3f2a91c04b7d/tree      switched by one rename
    STORE/staging/{tree/, journal}                             a copy in the making
    STORE/lock                                                 held by the one process that writes
    TARGET/<model> -> STORE/current/<model>                    what a server reads

A generation appears by one rename of the whole staging folder, so half a one never has a place here. Nothing is
flushed to the disk for that: a generation from an earlier life of the machine is read and verified before it counts.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from charonia_runtime.storage.failures import LayoutError
from charonia_runtime.storage.manifest import Manifest, read_manifest, write_manifest

_MANIFEST = "manifest"
_TREE = "tree"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Generation:
    """A complete copy. `name` sorts by age."""

    name: str
    directory: Path
    manifest: Manifest

    @property
    def tree(self) -> Path:
        return self.directory / _TREE

    def intact(self) -> bool:
        """Whether every file and empty directory is still as it was written, going by sizes and times."""
        return all(self.has(key) for key in self.manifest.files) and all(
            (self.tree / name).is_dir() for name in self.manifest.empty_directories
        )

    def has(self, key: str) -> bool:
        """Whether the copy of `key` is as it was written."""
        file = self.manifest.files.get(key)
        if file is None:
            return False
        try:
            status = os.stat(f"{self.directory}/{_TREE}/{key}", follow_symlinks=False)  # noqa: PTH116 - thousands of plain strings
        except OSError:
            return False
        return status.st_size == file.size and status.st_mtime_ns == file.modified_ns


class Generations:
    """The store's folder and the target that shows its current generation. One process at a time writes: `locked`."""

    def __init__(self, store: Path, target: Path, boot: str | None = None) -> None:
        """`target` must not lie within `store`, nor `store` within `target`. Raises LayoutError."""
        self.store = Path(os.path.abspath(store))  # noqa: PTH100 - links on the way stay what they are
        self.target = Path(os.path.abspath(target))  # noqa: PTH100
        if self.store == self.target or self.target in self.store.parents or self.store in self.target.parents:
            raise LayoutError(f"{store} and {target} must be apart: a server would take one for a model of the other")
        self.boot = boot_id() if boot is None else boot
        self.staging = self.store / "staging"
        self._folder = self.store / "generations"
        self._link = self.store / "current"

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Keep other processes from writing. While one does, `waiting` is called again and again; it may raise."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.target.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while not _try_lock(descriptor):
                waiting()
            yield
        finally:
            os.close(descriptor)

    def complete(self) -> list[Generation]:
        """Every generation that can be trusted, the oldest first."""
        found = []
        for directory in sorted(self._folder.iterdir()):
            manifest = read_manifest(directory / _MANIFEST)
            if manifest is not None:
                found.append(self._trusted(Generation(directory.name, directory, manifest)))
        return found

    def current(self) -> str:
        """The name of the live generation, empty when there is none."""
        try:
            return self._link.readlink().parent.name
        except OSError:
            return ""

    def commit(self, manifest: Manifest) -> Generation:
        """Make the staged tree a generation. It is not live yet."""
        names = [entry.name for entry in self._folder.iterdir()]
        number = max((int(name.partition("-")[0]) for name in names), default=0) + 1
        name = f"{number:06}-{manifest.revision.removeprefix('sha256:')[:12]}"
        write_manifest(manifest, self.staging / _MANIFEST)
        (self.staging / "journal").unlink(missing_ok=True)
        directory = self._folder / name
        self.staging.rename(directory)
        return Generation(name, directory, manifest)

    def switch(self, generation: Generation) -> None:
        """Make `generation` live, in one rename, and the target show what it holds."""
        _replace_link(self._link, Path("generations", generation.name, _TREE))
        self.publish()

    def publish(self) -> None:
        """Bring the target's links in line with the live generation. Raises LayoutError for what is in their way."""
        wanted = {path.name for path in self._link.iterdir()} if self._link.exists() else set()
        for path in list(self.target.iterdir()):
            ours = path.is_symlink() and path.readlink().parent == self._link
            if path.name in wanted and not ours:
                raise LayoutError(f"{path} is in the way of the repository's '{path.name}': it is not a copy")
            if ours and path.name not in wanted:
                path.unlink()
            elif ours:
                wanted.discard(path.name)
        for name in sorted(wanted):
            (self.target / name).symlink_to(self._link / name)

    def prune(self, keep: int) -> None:
        """Remove all but the newest `keep` generations; never the live one."""
        live = self.current()
        names = sorted((entry.name for entry in self._folder.iterdir()), reverse=True)
        for name in [name for name in names if name != live][max(keep - 1, 0) :]:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _trusted(self, generation: Generation) -> Generation:
        """The generation with the files that a crash of the machine did not harm, and noted as such."""
        manifest = generation.manifest
        if manifest.boot == self.boot:
            return generation
        sound = {
            key: file
            for key, file in manifest.files.items()
            if generation.has(key) and hash_file(generation.tree / key) == file.sha256
        }
        checked = replace(manifest, boot=self.boot, files=sound)
        temporary = generation.directory / f"{_MANIFEST}.new"
        write_manifest(checked, temporary)
        temporary.replace(generation.directory / _MANIFEST)
        return replace(generation, manifest=checked)


def boot_id() -> str:
    """Names this life of the machine: what was written in an earlier one may have been cut short by a crash."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's content."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace_link(link: Path, destination: Path) -> None:
    temporary = link.with_name(f"{link.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(destination)
    temporary.replace(link)
