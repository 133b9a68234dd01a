"""`spec.modelRepository`: where models come from and how they get to the pods."""

from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from charonia_operator.spec.quantity import Quantity
from charonia_operator.spec.reading import JSON, Bounds

_SCHEMES = ("s3", "gs", "as", "oss", "pvc")


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A Secret of the same namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class KeyReference:
    """A key of a ConfigMap of the same namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class CredentialKeys:
    """The Secret's keys, where they are not called by one of the well-known names."""

    access_key_id: str = ""
    access_key_secret: str = ""
    session_token: str = ""
    service_account_key: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks the bucket. Auto: the Secret where one is given, else the pod's own identity, else nobody."""

    source: Literal["Auto", "Secret", "WorkloadIdentity", "Anonymous"] = "Auto"
    secret_ref: SecretReference | None = None
    keys: CredentialKeys = field(default_factory=CredentialKeys)


@dataclass(frozen=True, slots=True)
class CacheClaim:
    """An existing claim by its name, or a new one of a size, owned by the service."""

    claim_name: str = ""
    size: Quantity | None = None
    storage_class_name: str = ""
    access_modes: tuple[Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"], ...] = ("ReadWriteMany",)


@dataclass(frozen=True, slots=True)
class Cache:
    """Where the pods keep their copy of the models."""

    type: Literal["EmptyDir", "Memory", "PersistentVolumeClaim"] = "EmptyDir"
    size_limit: Quantity | None = None
    persistent_volume_claim: CacheClaim | None = None


@dataclass(frozen=True, slots=True)
class ComputeResources:
    """core/v1 ResourceRequirements: what a container asks for and what it may use."""

    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)
    claims: tuple[JSON, ...] = ()


@dataclass(frozen=True, slots=True)
class Sync:
    """When and how the models are copied. Poll: a sidecar follows the bucket."""

    mode: Literal["Once", "Poll"] = "Once"
    interval_seconds: Annotated[int, Bounds(10, 86400)] = 60
    parallelism: Annotated[int, Bounds(1, 64)] = 8
    stall_timeout_seconds: Annotated[int, Bounds(5, 3600)] = 120
    history_limit: Annotated[int, Bounds(1, 5)] = 2
    resources: ComputeResources = field(default_factory=ComputeResources)


@dataclass(frozen=True, slots=True)
class ModelRepository:
    """A folder of models in a bucket or on a claim. Raises ValueError for fields that contradict each other."""

    uri: str
    endpoint: str = ""
    region: str = ""
    addressing_style: Literal["Auto", "VirtualHosted", "Path"] = "Auto"
    credentials: Credentials = field(default_factory=Credentials)
    ca_bundle_ref: KeyReference | None = None
    mount_path: str = "/models"
    revision: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    integrity: Literal["Auto", "Size", "Checksum", "Manifest"] = "Auto"
    manifest: str = ""
    cache: Cache = field(default_factory=Cache)
    sync: Sync = field(default_factory=Sync)

    def __post_init__(self) -> None:
        if self.scheme not in _SCHEMES or not self.location:
            raise ValueError(
                "uri must be s3://<bucket>/<folder>, gs://…, oss://…, as://<account>/<container>/<folder> or "
                f"pvc://<claim>/<folder>, not {self.uri!r}"
            )
        if self.scheme == "as" and not self.folder:
            raise ValueError(f"uri must name a storage account and a container, not {self.uri!r}")
        if self.cache.type == "PersistentVolumeClaim" and self.cache.persistent_volume_claim is None:
            raise ValueError("cache.type PersistentVolumeClaim needs cache.persistentVolumeClaim")
        if self.integrity == "Manifest" and not self.manifest:
            raise ValueError("integrity Manifest needs manifest, the key of the list of checksums")

    @property
    def scheme(self) -> str:
        """One of `s3`, `gs`, `as`, `oss` and `pvc`."""
        return urlsplit(self.uri).scheme

    @property
    def location(self) -> str:
        """The bucket, the storage account, or the claim's name."""
        return urlsplit(self.uri).netloc

    @property
    def folder(self) -> str:
        """The path inside the bucket, account or claim, without slashes at its ends."""
        return urlsplit(self.uri).path.strip("/")

    @property
    def is_synced(self) -> bool:
        """Whether the models are copied to the pods, and not mounted as they are."""
        return self.scheme != "pvc"
