"""The tree of files that a listing stands for: which files, which empty directories; refuses what cannot be files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from charonia_runtime.storage.failures import EmptyError, LayoutError
from charonia_runtime.storage.objects import StoredObject
from charonia_runtime.storage.patterns import Selection

_LONGEST_NAME = 255
"""Bytes that Linux's file systems allow for one name."""
_LONGEST_PATH = 3800
"""Bytes; what the kernel allows for a path, less some room for the folder that it will be in."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Files by key, in the order of their keys, and the directories with nothing in them (without a final `/`)."""

    files: Mapping[str, StoredObject]
    empty_directories: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(item.size for item in self.files.values())

    def directories(self) -> list[str]:
        """Every directory, parents before their children."""
        return sorted(_parents((*self.files, *(f"{name}/" for name in self.empty_directories))))


def build_tree(objects: Iterable[StoredObject], selection: Selection) -> Tree:
    """
    The tree of the wanted objects. Raises EmptyError for none, LayoutError for keys that no file can have.

    An object without bytes is a directory where other objects lie below it: some tools mark directories like that.
    """
    files: dict[str, StoredObject] = {}
    marked: set[str] = set()
    for item in objects:
        name = item.key.rstrip("/")
        if not name or not selection.wants(name):
            continue
        _refuse_unusable(name, item.key)
        if item.key.endswith("/"):
            marked.add(name)
        else:
            files[name] = item
    if not files and not marked:
        raise EmptyError("there is no object that the include and exclude patterns let through")
    directories = _parents((*files, *(f"{name}/" for name in marked)))
    for name in directories & files.keys():
        if files[name].size:
            raise LayoutError(f"'{name}' is an object and also a directory of other objects")
        del files[name]
    filled = _parents(files) | {parent for name in directories for parent in _parents((name,))}
    return Tree({key: files[key] for key in sorted(files)}, tuple(sorted(directories - filled)))


def _parents(keys: Iterable[str]) -> set[str]:
    """Every directory that the keys need; a key that ends in `/` needs itself."""
    found: set[str] = set()
    for key in keys:
        parent = key.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def _refuse_unusable(name: str, key: str) -> None:
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\0" in name:
        raise LayoutError(f"the object {key!r} cannot be a file: its key has an empty, '.' or '..' part; exclude it")
    if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for part in parts):
        raise LayoutError(f"the object {key!r} cannot be a file: a name is longer than {_LONGEST_NAME} bytes")
    if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_PATH:
        raise LayoutError(f"the object {key!r} cannot be a file: its key is longer than {_LONGEST_PATH} bytes")
