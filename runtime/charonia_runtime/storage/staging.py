"""
A copy in the making, which survives the death of its process.

The journal is a file of JSON lines: which files are whole, which parts of the others are there. Bytes are written
before the line that speaks of them, so what a killed process leaves is either noted or fetched again. A journal from
an earlier life of the machine is worth nothing: its bytes may never have reached the disk.
"""

import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from charonia_runtime.storage.generations import Generation
from charonia_runtime.storage.manifest import CopiedFile
from charonia_runtime.storage.objects import StoredObject
from charonia_runtime.storage.tree import Tree

Part = tuple[int, int]
"""First byte, and the one after the last."""


class Staging:
    """The folder `staging` of a store. `source` and `boot` tell whose bytes a journal speaks of."""

    def __init__(self, directory: Path, source: str, boot: str) -> None:
        self.tree = directory / "tree"
        self._directory = directory
        self._journal_path = directory / "journal"
        self._identity = [source, boot]
        self._lock = threading.Lock()
        self._journal = -1
        self.files: dict[str, CopiedFile] = {}
        """What is whole, by key."""
        self._parts: dict[str, tuple[int, str, set[Part]]] = {}
        """Key → size and tag of the object, and the parts of it that are there."""

    def open(self, wanted: Tree, kept: Iterable[Generation]) -> None:
        """
        Continue what a former process left, as far as it fits `wanted`, and link in what generations already hold.

        Raises OSError.
        """
        self._read_journal()
        if not self.files and not self._parts:
            shutil.rmtree(self._directory, ignore_errors=True)
        self.tree.mkdir(parents=True, exist_ok=True)
        self._forget_unwanted(wanted)
        self._remove_unknown(wanted)
        for name in wanted.directories():
            os.makedirs(f"{self.tree}/{name}", exist_ok=True)  # noqa: PTH103 - plain strings: there may be thousands
        self._write_journal()
        self._link(wanted, list(kept))

    def close(self) -> None:
        """Release the journal; the folder stays."""
        with self._lock:
            if self._journal >= 0:
                os.close(self._journal)
                self._journal = -1

    def path(self, key: str) -> str:
        return f"{self.tree}/{key}"

    def parts(self, item: StoredObject) -> set[Part]:
        """The parts of `item` that are there."""
        size, tag, parts = self._parts.get(item.key, (0, "", set()))
        return parts if (size, tag) == (item.size, item.tag) else set()

    def fetched(self, wanted: Tree) -> int:
        """Bytes of `wanted` that need not be fetched."""
        whole = sum(file.size for file in self.files.values())
        return whole + sum(stop - start for item in wanted.files.values() for start, stop in self.parts(item))

    def add_part(self, item: StoredObject, part: Part) -> None:
        """Note that the bytes of `part` are in the file."""
        with self._lock:
            known = self._parts.get(item.key)
            if known is None or known[:2] != (item.size, item.tag):
                known = self._parts[item.key] = (item.size, item.tag, set())
            known[2].add(part)
            self._note("part", [item.key, item.size, item.tag, *part])

    def drop_parts(self, item: StoredObject) -> None:
        """Forget the parts of a file that turned out wrong."""
        with self._lock:
            self._parts.pop(item.key, None)
            self._note("drop", [item.key])

    def add_file(self, file: CopiedFile) -> None:
        """Note that a file is whole and verified."""
        with self._lock:
            self.files[file.key] = file
            self._parts.pop(file.key, None)
            self._note("file", list(astuple(file)))

    def _note(self, kind: str, values: list[Any]) -> None:
        if self._journal >= 0:
            os.write(self._journal, f"{json.dumps([kind, values])}\n".encode())

    # --- what a former process left ---

    def _read_journal(self) -> None:
        try:
            lines = self._journal_path.read_bytes().splitlines()
        except OSError:
            return
        entries = _entries(lines)
        if next(entries, None) != ("head", self._identity):
            return
        for kind, values in entries:
            key = values[0]
            if kind == "file":
                self.files[key] = CopiedFile(*values)
                self._parts.pop(key, None)
            elif kind == "part":
                size, tag = values[1], values[2]
                known = self._parts.get(key)
                if known is None or known[:2] != (size, tag):
                    known = self._parts[key] = (size, tag, set())
                known[2].add((values[3], values[4]))
            else:
                self._parts.pop(key, None)

    def _forget_unwanted(self, wanted: Tree) -> None:
        self.files = {
            key: file
            for key, file in self.files.items()
            if (item := wanted.files.get(key)) is not None and file.is_copy_of(item) and self._is_there(file)
        }
        self._parts = {
            key: known
            for key, known in self._parts.items()
            if (item := wanted.files.get(key)) is not None
            and known[:2] == (item.size, item.tag)
            and _size(self.path(key)) == item.size
        }

    def _is_there(self, file: CopiedFile) -> bool:
        try:
            status = os.stat(self.path(file.key), follow_symlinks=False)  # noqa: PTH116
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (file.size, file.modified_ns)

    def _remove_unknown(self, wanted: Tree) -> None:
        directories = set(wanted.directories())
        for folder, names, files in os.walk(self.tree, topdown=False):
            inside = os.path.relpath(folder, self.tree)
            prefix = "" if inside == "." else f"{inside}/"
            for name in files:
                if prefix + name not in self.files and prefix + name not in self._parts:
                    os.unlink(f"{folder}/{name}")  # noqa: PTH108
            for name in names:
                if prefix + name not in directories:
                    os.rmdir(f"{folder}/{name}")  # noqa: PTH106

    def _write_journal(self) -> None:
        """Anew, so that it holds what is still of use and no torn line."""
        entries: list[tuple[str, list[Any]]] = [("head", self._identity)]
        entries += [("file", list(astuple(file))) for file in self.files.values()]
        entries += [
            ("part", [key, size, tag, *part])
            for key, (size, tag, parts) in self._parts.items()
            for part in sorted(parts)
        ]
        temporary = self._directory / "journal.new"
        temporary.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="ascii")
        temporary.replace(self._journal_path)
        self._journal = os.open(self._journal_path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    # --- what generations hold ---

    def _link(self, wanted: Tree, kept: list[Generation]) -> None:
        for key, item in wanted.files.items():
            if key in self.files or key in self._parts:
                continue
            for generation in reversed(kept):
                file = generation.manifest.files.get(key)
                if file is not None and file.is_copy_of(item) and generation.has(key):
                    self.files[key] = _link_or_copy(f"{generation.tree}/{key}", self.path(key), file)
                    break


def keep_times(tree: Path, directories: Iterable[str], before: Mapping[str, CopiedFile], live: Path) -> None:
    """
    Give the directories of `tree` whose entries are those of `live` the times that they have there.

    A server that compares times then loads only what changed; `before` are the files of `live`.
    """
    for name in sorted(directories, reverse=True):
        inside, old = f"{tree}/{name}", f"{live}/{name}"
        try:
            if _same_entries(inside, old, name, before):
                status = os.stat(old)  # noqa: PTH116
                os.utime(inside, ns=(status.st_atime_ns, status.st_mtime_ns))
        except OSError:
            continue


def _same_entries(new: str, old: str, name: str, before: Mapping[str, CopiedFile]) -> bool:
    if {path.name for path in Path(new).iterdir()} != {path.name for path in Path(old).iterdir()}:
        return False
    with os.scandir(new) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                file = before.get(f"{name}/{entry.name}")
                if file is None or entry.stat(follow_symlinks=False).st_mtime_ns != file.modified_ns:
                    return False
    return True


def _entries(lines: Iterable[bytes]) -> Iterator[tuple[str, list[Any]]]:
    """The journal's lines up to the first that is torn."""
    for line in lines:
        try:
            kind, values = json.loads(line)
        except ValueError:
            return
        yield kind, values


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116
    except OSError:
        return -1


def _link_or_copy(source: str, destination: str, file: CopiedFile) -> CopiedFile:
    try:
        os.link(source, destination)
    except FileExistsError:
        os.unlink(destination)  # noqa: PTH108
        return _link_or_copy(source, destination, file)
    except OSError:  # a file system without hard links, or too many of them
        shutil.copy2(source, destination)
        os.utime(destination, ns=(file.modified_ns, file.modified_ns))
    return file
