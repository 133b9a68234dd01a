"""`spec.networking` and `spec.access`: how clients reach the service, and which."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from charonia_operator.spec.reading import JSON, Bounds
from charonia_operator.spec.repository import SecretReference


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of pods and of the Service."""

    http: Annotated[int, Bounds(1024, 65535)] = 8000
    grpc: Annotated[int, Bounds(1024, 65535)] = 8001
    metrics: Annotated[int, Bounds(1024, 65535)] = 8002

    def __post_init__(self) -> None:
        if len({self.http, self.grpc, self.metrics}) < 3:
            raise ValueError("http, grpc and metrics must differ")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The Service in front of the pods."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GatewayReference:
    """A Gateway that routes are attached to."""

    name: str
    namespace: str = ""
    section_name: str = ""

    def json(self) -> dict[str, str]:
        """As routes want it."""
        optional = {"namespace": self.namespace, "sectionName": self.section_name}
        return {"name": self.name, **{key: value for key, value in optional.items() if value}}


@dataclass(frozen=True, slots=True)
class Gateway:
    """Expose through Gateway API routes."""

    parent_refs: tuple[GatewayReference, ...]
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ingress:
    """Expose through Ingresses: one for HTTP, one for gRPC, because controllers tell the two apart by annotations."""

    class_name: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    grpc_annotations: dict[str, str] = field(
        default_factory=lambda: {"nginx.ingress.kubernetes.io/backend-protocol": "GRPC"}
    )


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of an Ingress's hosts. A Gateway has its own."""

    secret_ref: SecretReference


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """
    Connections that are allowed. `from_` lists networking.k8s.io/v1 NetworkPolicyPeers that may call the service.

    Without any, pods of the same namespace may.
    """

    from_: tuple[JSON, ...] = ()
    egress: Literal["Any", "StorageAndDNS"] = "Any"


@dataclass(frozen=True, slots=True)
class Networking:
    """Ports, the Service, and the way in from outside the cluster, if there is one."""

    ports: Ports = field(default_factory=Ports)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    path_prefix: str = ""
    hostnames: tuple[str, ...] = ()
    grpc_hostnames: tuple[str, ...] = ()
    gateway: Gateway | None = None
    ingress: Ingress | None = None
    tls: Tls | None = None
    network_policy: NetworkPolicy | None = None

    def __post_init__(self) -> None:
        if self.gateway and self.ingress:
            raise ValueError("use gateway or ingress, not both")


@dataclass(frozen=True, slots=True)
class TokenReference:
    """A key of a Secret that holds a token."""

    name: str
    key: str = "token"


@dataclass(frozen=True, slots=True)
class Access:
    """Who may infer. Every listed token is valid, so that one can be replaced while both are in use."""

    type: Literal["None", "Token"] = "None"
    token_secret_refs: tuple[TokenReference, ...] = ()

    def __post_init__(self) -> None:
        if self.type == "Token" and not self.token_secret_refs:
            raise ValueError("type Token needs tokenSecretRefs")
