"""How to reach a store: endpoint, region, trust, and credentials that may change while they are in use."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from charonia_runtime.storage.failures import CredentialsError

_KEPT_SECONDS = 1.0
"""How long credentials are used before the folder is looked at again."""
_NAMES: Mapping[str, tuple[str, ...]] = {
    "accessKeyId": (
        "accessKeyId", "OSS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID", "access_key_id", "key_id",
        "AZURE_STORAGE_ACCOUNT", "azurestorageaccountname",
    ),
    "accessKeySecret": (
        "accessKeySecret", "secretAccessKey", "OSS_ACCESS_KEY_SECRET", "AWS_SECRET_ACCESS_KEY", "access_key_secret",
        "secret_access_key", "secret_key", "AZURE_STORAGE_KEY", "azurestorageaccountkey",
    ),
    "sessionToken": (
        "sessionToken", "securityToken", "OSS_SESSION_TOKEN", "OSS_SECURITY_TOKEN", "AWS_SESSION_TOKEN",
        "session_token", "sasToken", "AZURE_STORAGE_SAS_TOKEN",
    ),
    "serviceAccountKey": (
        "serviceAccountKey", "GOOGLE_APPLICATION_CREDENTIALS", "gcloud-application-credentials.json", "key.json",
    ),
    "endpoint": ("endpoint", "OSS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT"),
    "region": ("region", "OSS_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
}  # fmt: skip
"""What is read → the file names that it is known by, best first."""
FIELDS = frozenset(_NAMES)
"""The settings that a folder may hold."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Never printed whole: only `masked` goes into messages."""

    key_id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    document: str = field(default="", repr=False)
    """JSON text: the key of one of Google's service accounts."""

    @property
    def masked(self) -> str:
        """Enough of the key's id to tell which one it is."""
        return f"{self.key_id[:4]}****"


class CredentialsFolder:
    """
    A mounted Secret: one file a setting, replaced as a whole when it rotates. Safe to use from several threads.

    `names` says which file holds a setting where its name is not one of the usual ones.
    """

    def __init__(
        self, folder: Path, names: Mapping[str, str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._names = names or {}
        self._clock = clock
        self._read_at = -_KEPT_SECONDS
        self._found: Credentials | None = None

    def credentials(self, needed: Sequence[str] = ("accessKeyId", "accessKeySecret")) -> Credentials:
        """What the folder holds now. Raises CredentialsError when it lacks one of the settings that are `needed`."""
        found = self.content()
        values = {"accessKeyId": found.key_id, "accessKeySecret": found.secret, "serviceAccountKey": found.document}
        for name in needed:
            if not values[name]:
                wanted = self._names.get(name) or " or ".join(_NAMES[name][:3])
                raise CredentialsError(f"the credentials folder {self._folder} has no {name}: expected a file {wanted}")
        return found

    def content(self) -> Credentials:
        """What the folder holds now, whatever that is. Raises CredentialsError for a folder that cannot be read."""
        now = self._clock()
        found = self._found
        if found is None or now - self._read_at >= _KEPT_SECONDS:
            found = self._found = self._read()
            self._read_at = now
        return found

    def changed(self, used: Credentials) -> bool:
        """Read again, now. Whether the credentials are others than those that were used."""
        self._found = None
        return self.content() != used

    def setting(self, name: str) -> str:
        """One of `FIELDS`, empty where there is none."""
        return self._file(self._version(), name)

    def _read(self) -> Credentials:
        folder = self._version()
        if not folder.is_dir():
            raise CredentialsError(f"the credentials folder {self._folder} does not exist")
        names = ("accessKeyId", "accessKeySecret", "sessionToken", "serviceAccountKey")
        return Credentials(*(self._file(folder, name) for name in names))

    def _version(self) -> Path:
        """A Secret's volume switches `..data`; id and secret must be read from one and the same version."""
        data = self._folder / "..data"
        return Path(os.path.realpath(data)) if data.exists() else self._folder

    def _file(self, folder: Path, setting: str) -> str:
        own = self._names.get(setting)
        for name in (own,) if own else _NAMES[setting]:
            try:
                return (folder / name).read_text().strip()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise CredentialsError(f"cannot read {folder / name}: {error}") from error
        return ""


@dataclass(frozen=True, slots=True)
class Access:
    """What a store is opened with."""

    endpoint: str = ""
    region: str = ""
    addressing_style: str = "auto"
    """`virtual`: the bucket is part of the host's name; `path`: of the path; `auto`: what suits the endpoint."""
    folder: CredentialsFolder | None = None
    """None: what the scheme finds in the environment."""
    anonymous: bool = False
    ca_bundle: str = ""
    """PEM file of the authorities to trust instead of the system's."""
    connections: int = 8
    """Requests at the same time."""
    timeout_seconds: float = 60
    """How long the store may be silent."""

    def setting(self, name: str) -> str:
        """`endpoint` or `region`: as given, else as the credentials folder has it."""
        given = {"endpoint": self.endpoint, "region": self.region}[name]
        if given or self.folder is None:
            return given
        return self.folder.setting(name)


def as_url(endpoint: str) -> str:
    """An endpoint with its scheme, https where it names none."""
    return endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}"
