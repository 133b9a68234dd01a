"""A server's model repositories: those that live in a bucket are copied to a private folder and kept current."""

import math
import os
from collections.abc import Mapping, Sequence

from charonia_runtime.owned_folders import OwnedFolder
from charonia_runtime.storage.access import Access
from charonia_runtime.storage.generations import Generations
from charonia_runtime.storage.location import is_remote, parse_location
from charonia_runtime.storage.mirror import Mirror, MirrorOptions
from charonia_runtime.storage.progress import Progress
from charonia_runtime.storage.retrying import Retries
from charonia_runtime.storage.schemes import open_store

_FOLDERS = ("TRITON_AWS_MOUNT_DIRECTORY", "TRITON_GCS_MOUNT_DIRECTORY", "TRITON_AZURE_MOUNT_DIRECTORY")
"""Variables that name the folder in which the private ones are made. The first that is set counts."""


class RemoteRepositories:
    """
    Maps `uris` to directories: a plain path to itself, anything else to a copy that `refresh` makes.

    Every method blocks. Credentials and endpoints come from `environment` and from what the libraries look at.
    """

    def __init__(
        self, uris: Sequence[str], environment: Mapping[str, str] = os.environ, *, give_up_seconds: float = math.inf
    ) -> None:
        """`give_up_seconds` is how long a bucket that does not answer is asked again."""
        self._mirrors: list[Mirror] = []
        self._folder: OwnedFolder | None = None
        self._retries = Retries(give_up_seconds=give_up_seconds)
        self._parent = next(filter(None, map(environment.get, _FOLDERS)), None)
        try:
            found = {uri: self._directory(uri, index) for index, uri in enumerate(dict.fromkeys(uris))}
        except BaseException:
            self.close()
            raise
        self.directories = tuple(found[uri] for uri in uris)
        """Where the models are, in the order of the URIs; a URI that is given twice is copied once."""

    def refresh(self) -> None:
        """Bring every copy in line with its bucket. Raises StorageError; the copies then stay as they are."""
        for mirror in self._mirrors:
            mirror.sync()

    def close(self) -> None:
        """Remove the copies, and end what still copies."""
        self._retries.stopping.set()
        if self._folder is not None:
            self._folder.remove()

    def _directory(self, uri: str, index: int) -> str:
        location = parse_location(uri) if uri else None
        if location is None or not is_remote(uri):
            return location.prefix if location else uri
        if self._folder is None:
            self._folder = OwnedFolder("folder", self._parent)
        folder = self._folder.path
        target = folder / "repositories" / str(index)
        generations = Generations(folder / "copies" / str(index), target)
        store = open_store(location, Access())
        options = MirrorOptions(source=f"{location.endpoint}|{location.uri}")
        self._mirrors.append(Mirror(store, generations, options, self._retries, Progress()))
        return str(target)
