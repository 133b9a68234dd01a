"""
Model repositories on disk: which models there are, their versions, and whether they changed since they were last read.

Every function here blocks on the file system; the engine calls them in an executor.
"""

import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.identifiers import model_identifier

logger = logging.getLogger(__name__)

CONFIG_FILENAME = "config.pbtxt"
_CONFIGS = "configs"
_BYTECODE = "__pycache__"
_MOST_DIGITS = 18
"""Longer numbers might not fit the 64 bits that versions have on the wire."""
_LOOK_LIKE_CONFIGS = frozenset({
    "config.yaml", "config.yml", "config.json", "config.txt", "config.pbtxt.txt", "config.pbtx", "config.prototxt",
    "config.pb", "Config.pbtxt", "model.pbtxt", "config.pbtext",
})  # fmt: skip
_NEVER_VERSIONS = {_CONFIGS, "warmup", "initial_state", _BYTECODE}


@dataclass(frozen=True, slots=True)
class Stamp:
    """
    What is remembered of a file tree to see that it changed: newest modification time, and a hash over every file.

    Time alone, Triton's criterion, would miss a file that was replaced by an older one.
    """

    newest_ns: int = 0
    files: int = 0

    def differs_from(self, earlier: "Stamp") -> bool:
        return self.newest_ns > earlier.newest_ns or self.files != earlier.files


@dataclass(frozen=True, slots=True)
class Modifications:
    """The groups of a model's directory that are reloaded separately."""

    directory: Stamp = Stamp()
    """The directory's own time: entries came, went or were renamed."""
    config: Stamp = Stamp()
    others: Stamp = Stamp()
    """Labels, warm-up data and whatever else lies beside the version directories."""
    versions: Mapping[int, Stamp] = field(default_factory=dict)

    def differ_from(self, earlier: "Modifications") -> bool:
        return (
            self.directory.differs_from(earlier.directory)
            or self.config.differs_from(earlier.config)
            or self.others.differs_from(earlier.others)
            or self.versions.keys() != earlier.versions.keys()
            or any(stamp.differs_from(earlier.versions[version]) for version, stamp in self.versions.items())
        )


@dataclass(frozen=True, slots=True)
class RepositoryEntry:
    """One model's directory as it was found. `versions` are ascending, whatever the version policy says."""

    name: str
    directory: Path
    config_path: Path
    """The configuration to read; it need not exist."""
    versions: tuple[int, ...]
    first_version_files: Mapping[str, bool]
    """Names in the first version directory → whether they are directories; tells the backend of bare models."""
    modifications: Modifications
    ignored: tuple[str, ...] = ()
    """Why directories that look like versions, and files that look like configurations, are none; for the log."""
    namespace: str = ""
    """The repository as the command line has it, where models of several repositories may have one name."""

    def version_directory(self, version: int) -> Path:
        return self.directory / str(version)


class ModelRepositories:
    """The directories of `--model-repository`, in order."""

    def __init__(
        self,
        directories: Iterable[Path],
        config_name: str = "",
        refresh: Callable[[], None] | None = None,
        *,
        namespaces: Iterable[str] | None = None,
    ) -> None:
        """
        Take each directory once, also when its path is given twice; Triton keeps its repositories in a set.

        `refresh` brings directories that are copies in line with what they are copies of; it may raise. `namespaces`
        are those of the directories, one for each; without them all directories share one set of names.
        """
        pairs = ((directory, "") for directory in directories)
        if namespaces is not None:
            pairs = ((directory, namespace) for (directory, _), namespace in zip(pairs, namespaces, strict=True))
        self._namespaces = dict({os.path.normpath(directory): (directory, name) for directory, name in pairs}.values())
        self.directories = tuple(self._namespaces)
        self._refresh = refresh
        self._config_name = config_name

    def refresh(self) -> None:
        """Bring copies of remote repositories up to date. Raises InferenceError; the copies then stay as they are."""
        if self._refresh is not None:
            self._refresh()

    def check(self) -> None:
        """Raises InternalError when a repository is missing, InvalidArgumentError when it is no directory."""
        self.refresh()
        for directory in self.directories:
            if not directory.exists():
                raise InternalError(f"failed to stat file {directory}")
            if not directory.is_dir():
                raise InvalidArgumentError("repository path is not a valid directory")

    def locate(self) -> dict[str, tuple[Path, ...]]:
        """
        Every model's identifier → its directories, one in each repository that has it, by namespace and name.

        A repository that cannot be read is logged and passed over.
        """
        found: dict[tuple[str, str], tuple[Path, ...]] = {}
        for repository, namespace in self._namespaces.items():
            try:
                with os.scandir(repository) as entries:
                    names = [entry.name for entry in entries if entry.is_dir()]
            except OSError as error:
                logger.error("failed to open model repository '%s': %s", repository, error.strerror)  # noqa: TRY400
                continue
            for name in names:
                found[namespace, name] = (*found.get((namespace, name), ()), repository / name)
        return {model_identifier(*key): places for key, places in sorted(found.items())}

    def find(self, identifier: str) -> tuple[Path, ...]:
        """The directories of one model. A name that would leave a repository is in none."""
        found: list[Path] = []
        for repository, namespace in self._namespaces.items():
            prefix = model_identifier(namespace, "")
            name = identifier.removeprefix(prefix)
            if identifier.startswith(prefix) and _has_model(repository, name):
                found.append(repository / name)
        return tuple(found)

    def identifiers(self, name: str) -> tuple[str, ...]:
        """
        The models that a client's `name` means: one in each repository that has it where names are not shared.

        A name that no repository has is its own identifier.
        """
        homes = {namespace: None for repository, namespace in self._namespaces.items() if _has_model(repository, name)}
        return tuple(model_identifier(namespace, name) for namespace in sorted(homes)) or (name,)

    def namespace_of(self, name: str, own: str) -> str:
        """
        The namespace of the model that an ensemble of the namespace `own` means by a step's `name`.

        Its own repository comes first, then the only other one that has the model, as in Triton. Empty where there is
        none or more than one.
        """
        homes = [namespace for repository, namespace in self._namespaces.items() if _has_model(repository, name)]
        if own in homes:
            return own
        return homes[0] if len(homes) == 1 else ""

    def read(self, directory: Path) -> RepositoryEntry:
        """Read one model's directory, not its configuration. Raises InternalError when it cannot be read."""
        try:
            return _read_entry(directory, self._config_path(directory), self._namespaces.get(directory.parent, ""))
        except OSError as error:
            raise InternalError(f"failed to open directory {error.filename}: {error.strerror}") from error

    def _config_path(self, directory: Path) -> Path:
        if self._config_name:
            custom = directory / _CONFIGS / f"{self._config_name}.pbtxt"
            if custom.is_file():
                return custom
        return directory / CONFIG_FILENAME


def is_model_name(name: str) -> bool:
    """Whether a directory of a repository can have this name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _has_model(repository: Path, name: str) -> bool:
    return is_model_name(name) and os.path.isdir(repository / name)  # noqa: PTH112 - never raises, whatever the name


def parse_version(name: str) -> int | str:
    """The version that a directory's name stands for, else why it is passed over; "" goes without saying."""
    if name in _NEVER_VERSIONS:
        return ""
    if not (name.isascii() and name.isdecimal()) or len(name) > _MOST_DIGITS:
        return f"ignore version directory '{name}' which fails to convert to integral number"
    if name.startswith("0") and len(name) > 1:
        return f"ignore version directory '{name}' which contains leading zeros in its directory name"
    return int(name)


def _read_entry(directory: Path, config_path: Path, namespace: str) -> RepositoryEntry:
    folders: dict[str, str] = {}
    versions: dict[int, Stamp] = {}
    others: list[_Seen] = []
    ignored: list[str] = []
    with os.scandir(directory) as entries:
        children = sorted(entries, key=lambda entry: entry.name)
    for child in children:
        if child.is_dir():
            folders[child.name] = child.path
            version = parse_version(child.name)
            if isinstance(version, int):
                versions[version] = _stamp(_walk(child.path))
                continue
            ignored += [version] if version else []
        elif child.name in _LOOK_LIKE_CONFIGS and not config_path.exists():
            ignored.append(f"'{child.path}' is not read: the configuration of a model is '{config_path}'")
        if child.name != _BYTECODE:
            others += _walk(child.path, skip=os.fspath(config_path))
    bare = {name: path for name, path in folders.items() if name.isdecimal() and int(name) in versions} or folders
    bytecode = _BYTECODE in folders
    return RepositoryEntry(
        name=directory.name,
        directory=directory,
        config_path=config_path,
        versions=tuple(sorted(versions)),
        first_version_files=_list(bare[min(bare)]) if bare else {},
        modifications=Modifications(
            directory=Stamp(0 if bytecode else directory.stat().st_mtime_ns),
            config=_stamp(_walk(os.fspath(config_path))),
            others=_stamp(others),
            versions=versions,
        ),
        ignored=tuple(ignored),
        namespace=namespace,
    )


def _list(directory: str) -> dict[str, bool]:
    with os.scandir(directory) as entries:
        return {entry.name: entry.is_dir() for entry in entries}


_Seen = tuple[str, int, int]
"""Path, modification time in nanoseconds, size in bytes; directories have size -1."""


def _walk(path: str, *, skip: str = "") -> Iterator[_Seen]:
    """
    Everything in the tree at `path`, links followed, without the bytecode that Python writes while it imports.

    Writing bytecode changes the directory's own time as well, so directories that hold some are left out.
    """
    waiting = [path]
    visited: set[tuple[int, int]] = set()
    while waiting:
        current = waiting.pop()
        try:
            status = os.stat(current)  # noqa: PTH116 - plain strings: there may be thousands of files
            if not stat.S_ISDIR(status.st_mode):
                if current != skip:
                    yield current, status.st_mtime_ns, status.st_size
                continue
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(current) as entries:
                children = {entry.name: entry.path for entry in entries}
        except FileNotFoundError:
            continue  # gone since its directory was listed, or a broken link
        if children.pop(_BYTECODE, None) is None:
            yield current, status.st_mtime_ns, -1
        waiting += children.values()


def _stamp(seen: Iterable[_Seen]) -> Stamp:
    everything: Sequence[_Seen] = list(seen)
    files = frozenset(one for one in everything if one[2] >= 0)
    return Stamp(max((modified for _, modified, _ in everything), default=0), hash(files))
