"""
What a copied tree holds: each file with its identity in the store and its SHA-256; as JSON lines on disk.

The revision is a digest of contents alone: the same tree has the same revision whatever store it came from.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from charonia_runtime.storage.objects import StoredObject
from charonia_runtime.storage.tree import Tree

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file on disk that holds an object's bytes, verified."""

    key: str
    size: int
    tag: str
    sha256: str
    modified_ns: int
    """The file's own time; another one means that somebody wrote to it."""

    def is_copy_of(self, item: StoredObject) -> bool:
        return self.size == item.size and self.tag == item.tag


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole tree. `source` is the store that the tags belong to; `boot` the life of the machine that wrote it."""

    source: str
    boot: str
    files: Mapping[str, CopiedFile]
    empty_directories: tuple[str, ...]

    @property
    def revision(self) -> str:
        """`sha256:` and the digest of every key, size and content."""
        digest = hashlib.sha256()
        for key in sorted(self.files):
            file = self.files[key]
            digest.update(f"file\0{file.key}\0{file.size}\0{file.sha256}\n".encode("utf-8", "surrogateescape"))
        for name in sorted(self.empty_directories):
            digest.update(f"directory\0{name}\n".encode("utf-8", "surrogateescape"))
        return f"sha256:{digest.hexdigest()}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    def holds(self, tree: Tree) -> bool:
        """Whether this is a copy of `tree`, going by sizes and tags."""
        return (
            self.files.keys() == tree.files.keys()
            and self.empty_directories == tree.empty_directories
            and all(self.files[key].is_copy_of(item) for key, item in tree.files.items())
        )


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Raises OSError."""
    with path.open("w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{line}\n" for line in _lines(manifest))


def read_manifest(path: Path) -> Manifest | None:
    """None when there is none, or none that is whole and of this format."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            return _parse(file)
    except (OSError, ValueError, TypeError, KeyError, StopIteration):
        return None


def _lines(manifest: Manifest) -> Iterator[str]:
    head = {
        "format": _FORMAT,
        "source": manifest.source,
        "boot": manifest.boot,
        "files": len(manifest.files),
        "emptyDirectories": manifest.empty_directories,
    }
    yield json.dumps(head)
    for file in manifest.files.values():
        yield json.dumps(asdict(file))


def _parse(lines: Iterable[str]) -> Manifest | None:
    rest = iter(lines)
    head = json.loads(next(rest))
    files = [CopiedFile(**json.loads(line)) for line in rest]
    if head["format"] != _FORMAT or head["files"] != len(files):
        return None
    return Manifest(head["source"], head["boot"], {file.key: file for file in files}, tuple(head["emptyDirectories"]))
