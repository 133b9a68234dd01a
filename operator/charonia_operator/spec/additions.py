"""What users add to the pods themselves: volumes, and containers beside the operator's own."""

from collections.abc import Iterable
from dataclasses import dataclass

from charonia_operator.spec.reading import JSON

CONTAINER_NAMES = frozenset({"server", "model-sync", "model-watch", "python-packages"})
VOLUME_NAMES = frozenset({"tmp", "models", "store", "credentials", "authorities", "shm", "python", "pip", "tokens"})
"""Names that the operator's own containers and volumes have."""


@dataclass(frozen=True, slots=True)
class Storage:
    """
    A volume that the server sees at `mount_path`. Exactly one of the kinds is given, as its core/v1 VolumeSource.

    Raises ValueError for none or several kinds, and for a reserved name.
    """

    name: str
    mount_path: str
    sub_path: str = ""
    read_only: bool = False
    persistent_volume_claim: JSON | None = None
    nfs: JSON | None = None
    empty_dir: JSON | None = None
    config_map: JSON | None = None
    secret: JSON | None = None
    projected: JSON | None = None
    csi: JSON | None = None
    ephemeral: JSON | None = None

    def __post_init__(self) -> None:
        if len(self.sources) != 1:
            raise ValueError(
                "give exactly one of persistentVolumeClaim, nfs, emptyDir, configMap, secret, projected, csi, ephemeral"
            )
        if self.name in VOLUME_NAMES:
            raise ValueError(f"name '{self.name}' is reserved: the operator's own volumes are {_listed(VOLUME_NAMES)}")

    @property
    def sources(self) -> dict[str, JSON]:
        """The kinds of volume that are given, by their keys in core/v1."""
        kinds = {
            "persistentVolumeClaim": self.persistent_volume_claim, "nfs": self.nfs, "emptyDir": self.empty_dir,
            "configMap": self.config_map, "secret": self.secret, "projected": self.projected, "csi": self.csi,
            "ephemeral": self.ephemeral,
        }  # fmt: skip
        return {key: source for key, source in kinds.items() if source is not None}


def check_container_names(field: str, containers: Iterable[JSON]) -> None:
    """Raise ValueError for a container without a name, or with one of the operator's own."""
    for container in containers:
        name = container.get("name")
        if not name:
            raise ValueError(f"{field}: every container needs a name")
        if name in CONTAINER_NAMES:
            raise ValueError(f"{field}: the name '{name}' is reserved: change that container with podTemplate")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
