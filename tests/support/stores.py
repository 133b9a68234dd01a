"""The same repository in each kind of store, for suites that run over all of them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from charonia_runtime.storage.access import Access, CredentialsFolder
from charonia_runtime.storage.download import DownloadOptions
from charonia_runtime.storage.generations import Generations
from charonia_runtime.storage.location import parse_location
from charonia_runtime.storage.mirror import Mirror, MirrorOptions
from charonia_runtime.storage.objects import Store
from charonia_runtime.storage.progress import Progress
from charonia_runtime.storage.retrying import Retries
from charonia_runtime.storage.schemes import open_store
from tests.support.buckets import BucketServer
from tests.support.oss_server import OssServer
from tests.support.s3_server import S3Server

SMALL_PART = 1 << 16


class Place(Protocol):
    """A repository somewhere, and how to get at it."""

    uri: str
    server: BucketServer | None

    def put(self, key: str, body: bytes = b"") -> None: ...

    def remove(self, key: str) -> None: ...

    def access(self) -> Access: ...


class FolderPlace:
    server = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder)
        folder.mkdir()

    def put(self, key: str, body: bytes = b"") -> None:
        path = self.folder / key
        if key.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def remove(self, key: str) -> None:
        path = self.folder / key
        shutil.rmtree(path) if key.endswith("/") else path.unlink()

    def access(self) -> Access:
        return Access()


class BucketPlace:
    """A prefix of a fake bucket, with neighbours whose names begin alike."""

    def __init__(self, scheme: str, server: BucketServer, credentials: Path) -> None:
        self.scheme = scheme
        self.server: BucketServer = server
        self.uri = f"{scheme}://{server.bucket}/team/repo"
        self.credentials = credentials
        server.put("team/repo-v2/other/config.pbtxt", b"not ours")
        server.put("team/repository", b"not ours")
        write_secret(credentials, *self._key())

    def _key(self) -> tuple[str, str]:
        key_id, (secret, _) = next(iter(self.server.keys.items()))
        return key_id, secret

    def put(self, key: str, body: bytes = b"") -> None:
        self.server.put(f"team/repo/{key}", body)

    def remove(self, key: str) -> None:
        del self.server.objects[f"team/repo/{key}"]

    def access(self, **settings: Any) -> Access:
        folder = CredentialsFolder(self.credentials)
        given = {"endpoint": self.server.url, "folder": folder, "timeout_seconds": 5.0, **settings}
        return Access(**given)


def write_secret(folder: Path, key_id: str, secret: str, token: str = "") -> None:
    """Credentials as Kubernetes mounts them: a link `..data` that is switched in one rename."""
    folder.mkdir(exist_ok=True)
    version = folder / f"..{key_id}-{len(list(folder.iterdir()))}"
    version.mkdir()
    for name, value in (("accessKeyId", key_id), ("accessKeySecret", secret), ("sessionToken", token)):
        (version / name).write_text(value)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    temporary = folder / "..data_tmp"
    temporary.symlink_to(version.name)
    temporary.replace(folder / "..data")


@contextmanager
def a_place(scheme: str, directory: Path) -> Iterator[Any]:
    """A repository of the scheme, empty."""
    if scheme == "file":
        yield FolderPlace(directory / "origin")
        return
    with {"s3": S3Server, "oss": OssServer}[scheme]() as server:
        yield BucketPlace(scheme, server, directory / "credentials")


def a_store(place: Place) -> Store:
    return open_store(parse_location(place.uri), place.access())


def quick_retries(access: Access | None = None, attempts: int = 4) -> Retries:
    """Retries that lose no time."""
    return Retries(attempts=attempts, first_seconds=0.001, most_seconds=0.01, folder=access.folder if access else None)


def a_mirror(place: Place, directory: Path, boot: str = "boot-1", **options: Any) -> Mirror:
    """A mirror of `place` at `directory/models`, in small parts."""
    access = place.access()
    store = open_store(parse_location(place.uri), access)
    options.setdefault("download", DownloadOptions(parallelism=4, part_size=SMALL_PART))
    return Mirror(
        store,
        Generations(directory / "store", directory / "models", boot),
        MirrorOptions(source=place.uri, **options),
        quick_retries(access),
        Progress(),
    )


def tree_of(directory: Path) -> dict[str, bytes | None]:
    """Every file's content by its path; None for directories with nothing in them."""
    found: dict[str, bytes | None] = {}
    waiting = [directory]
    while waiting:
        for path in waiting.pop().iterdir():
            key = str(path.relative_to(directory))
            if not path.is_dir():
                found[key] = path.read_bytes()
            elif any(path.iterdir()):
                waiting.append(path)
            else:
                found[key] = None
    return found
