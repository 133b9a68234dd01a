"""`InferenceServiceSpec`: one InferenceService, read once, for everything that is made from it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from charonia_operator.spec.additions import Storage, check_container_names
from charonia_operator.spec.networking import Access, Networking, ServiceOptions
from charonia_operator.spec.reading import JSON, Bounds, SpecError, departures, read
from charonia_operator.spec.repository import ComputeResources, ModelRepository, SecretReference
from charonia_operator.spec.scaling import Autoscaling, Disruption
from charonia_operator.spec.serving import Drain, Gpu, Probes, Python, Scheduling, Server, SharedMemory

ADOPT_ORPHANS = "serving.charonia.dev/adopt-orphans"
"""Annotation of an InferenceService."""


@dataclass(frozen=True, slots=True)
class PodMetadata:
    """Labels and annotations that pods get beside the operator's own."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec:
    """`spec`, field by field. Raises ValueError for fields that contradict each other."""

    model_repository: ModelRepository | None = None
    server: Server = field(default_factory=Server)
    python: Python | None = None
    gpu: Gpu | None = None
    resources: ComputeResources = field(default_factory=ComputeResources)
    shared_memory: SharedMemory | None = None
    replicas: Annotated[int, Bounds(0, 1000)] = 1
    restart: str = ""
    suspend: bool = False
    autoscaling: Autoscaling | None = None
    disruption: Disruption = field(default_factory=Disruption)
    networking: Networking = field(default_factory=Networking)
    access: Access = field(default_factory=Access)
    probes: Probes = field(default_factory=Probes)
    drain: Drain = field(default_factory=Drain)
    scheduling: Scheduling = field(default_factory=Scheduling)
    service_account_name: str = ""
    image_pull_secrets: tuple[SecretReference, ...] = ()
    pod_metadata: PodMetadata = field(default_factory=PodMetadata)
    storage: tuple[Storage, ...] = ()
    init_containers: tuple[JSON, ...] = ()
    sidecars: tuple[JSON, ...] = ()
    pod_template: JSON | None = None

    def __post_init__(self) -> None:
        if self.model_repository is None and not self.storage and not self.server.image:
            raise ValueError("set modelRepository, storage that holds models, or a server.image that brings them")
        maps: JSON = {"metadata": {"labels": {}, "annotations": {}}, "spec": {}}
        _check_shape(self.pod_template or {}, "podTemplate", maps)
        check_container_names("initContainers", self.init_containers)
        check_container_names("sidecars", self.sidecars)
        if self.access.type == "Token" and self.server.kind != "Charonia":
            raise ValueError(f"access.type Token needs a server of type Charonia: server.type is {self.server.kind}")


def _check_shape(value: Mapping[str, Any], path: str, maps: Mapping[str, Any]) -> None:
    """Raise ValueError where one of `maps`, or of the maps in it, is there and is no mapping."""
    for name, inner in maps.items():
        found = value.get(name)
        if found is not None and not isinstance(found, Mapping):
            raise ValueError(f"{path}.{name} must be a mapping, not {found!r}")
        _check_shape(found or {}, f"{path}.{name}", inner)


@dataclass(frozen=True, slots=True)
class InferenceServiceSpec:
    """An InferenceService: who it is, and what it asks for."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Spec
    adopts_orphans: bool = False
    """Whether it takes over what a former service of its name has left behind."""

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> "InferenceServiceSpec":
        """Read the object as the API server gives it. Raises SpecError."""
        metadata = body.get("metadata", {})
        for key in ("name", "namespace", "uid"):
            if not metadata.get(key):
                raise SpecError(f"metadata.{key}", "is required")
        spec = read(Spec, body.get("spec"))
        adopts = (metadata.get("annotations") or {}).get(ADOPT_ORPHANS) == "true"
        generation = metadata.get("generation", 0)
        return cls(metadata["name"], metadata["namespace"], metadata["uid"], generation, spec, adopts)

    @property
    def replicas(self) -> int:
        """How many pods are wanted now."""
        return 0 if self.spec.suspend else self.spec.replicas

    @property
    def path_prefix(self) -> str:
        """The folder of URLs that the service answers under beside `/`, or an empty string."""
        networking = self.spec.networking
        exposed = networking.gateway or networking.ingress
        chosen = networking.path_prefix or (f"/api/predict/{self.name}" if exposed else "")
        return "" if chosen == "/" else chosen

    def fingerprint(self) -> str:
        """
        What of the service shapes its pods, as ten hexadecimal digits.

        Independent of the operator's version: fields at their defaults do not count, nor do those that pods do not see.
        """
        networking = replace(
            self.spec.networking,
            service=ServiceOptions(),
            tls=None,
            hostnames=(),
            grpc_hostnames=(),
            network_policy=None,
        )
        shaping = replace(
            self.spec, replicas=1, suspend=False, autoscaling=None, disruption=Disruption(), networking=networking
        )
        text = json.dumps(departures(shaping), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]
