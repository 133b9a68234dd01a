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
from tests.support.azure_server import AzureServer
from tests.support.buckets import BucketServer
from tests.support.gcs_server import ACCOUNT, GcsServer, new_private_key
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

    noun = "bucket"
    denied = r"SignatureDoesNotMatch.*AKID\*\*\*\*"
    """What the message says of a key that is not the account's."""

    def __init__(self, scheme: str, server: BucketServer, credentials: Path) -> None:
        self.scheme = scheme
        self.server: BucketServer = server
        self.uri = self.uri_in(server.bucket)
        self.credentials = credentials
        server.put("team/repo-v2/other/config.pbtxt", b"not ours")
        server.put("team/repository", b"not ours")
        self.write_credentials()

    def uri_in(self, bucket: str) -> str:
        """The repository's address if it were in another bucket."""
        return f"{self.scheme}://{bucket}/team/repo"

    def write_credentials(self) -> None:
        write_secret(self.credentials, *self._key())

    def environment(self) -> dict[str, str]:
        """The variables that give a server the endpoint and the credentials."""
        key_id, secret = self._key()
        names = {"s3": ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        of_oss = ("OSS_ENDPOINT", "OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET")
        return dict(zip(names.get(self.scheme, of_oss), (self.server.url, key_id, secret), strict=True))

    def refuse_credentials(self) -> None:
        """The account has another key from now on."""
        self.server.keys["AKIDREADER"] = ("another secret", "")

    def rotate_credentials(self) -> None:
        """The account has another key from now on. Its Secret shows it first: who is refused finds the new one."""
        write_secret(self.credentials, "AKIDSECOND", "second-secret")
        self.server.keys = {"AKIDSECOND": ("second-secret", "")}

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


class GcsPlace(BucketPlace):
    """A service account's key opens it."""

    server: GcsServer
    denied = r"invalid_grant: Invalid JWT Signature.*reader@project"

    def write_credentials(self) -> None:
        write_files(self.credentials, {"serviceAccountKey": self.server.document()})

    def environment(self) -> dict[str, str]:
        path = self.credentials / "serviceAccountKey"
        return {"API_ENDPOINT_OVERRIDE": self.server.url, "GOOGLE_APPLICATION_CREDENTIALS": str(path)}

    def refuse_credentials(self) -> None:
        self.server.keys = {ACCOUNT: (new_private_key(), "")}
        self.server.tokens.clear()

    def rotate_credentials(self) -> None:
        key = new_private_key()
        write_files(self.credentials, {"serviceAccountKey": self.server.document(key)})
        self.server.keys = {ACCOUNT: (key, "")}
        self.server.tokens.clear()


class AzurePlace(BucketPlace):
    """The account's key opens it."""

    noun = "container"
    denied = "AuthenticationFailed.*account akidreader"

    def uri_in(self, bucket: str) -> str:
        return f"as://akidreader/{bucket}/team/repo"

    def environment(self) -> dict[str, str]:
        account, key = self._key()
        return {
            "AZURE_STORAGE_ENDPOINT": self.server.url, "AZURE_STORAGE_ACCOUNT": account, "AZURE_STORAGE_KEY": key,
        }  # fmt: skip

    def refuse_credentials(self) -> None:
        self.server.keys["akidreader"] = ("b3RoZXI=", "")

    def rotate_credentials(self) -> None:
        write_secret(self.credentials, "akidreader", "b3RoZXI=")
        self.refuse_credentials()


def write_secret(folder: Path, key_id: str, secret: str, token: str = "") -> None:
    """An access key as Kubernetes mounts it."""
    write_files(folder, {"accessKeyId": key_id, "accessKeySecret": secret, "sessionToken": token})


def write_files(folder: Path, files: dict[str, str]) -> None:
    """A Secret as Kubernetes mounts it: a link `..data` that is switched in one rename."""
    folder.mkdir(exist_ok=True)
    version = folder / f"..version-{len(list(folder.iterdir()))}"
    version.mkdir()
    for name, value in files.items():
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
    kinds: dict[str, tuple[type[BucketServer], type[BucketPlace]]] = {
        "s3": (S3Server, BucketPlace),
        "oss": (OssServer, BucketPlace),
        "gs": (GcsServer, GcsPlace),
        "as": (AzureServer, AzurePlace),
    }
    make_server, make_place = kinds[scheme]
    with make_server() as server:
        yield make_place(scheme, server, directory / "credentials")


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
