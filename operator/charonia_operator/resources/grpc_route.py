"""The Gateway API route for gRPC, which is found by its host: gRPC cannot carry a path's prefix."""

from charonia_operator.naming import JSON, ResourceKind, child
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("gateway.networking.k8s.io/v1", "GRPCRoute", "grpcroutes", optional=True)


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """A route where a gateway and hosts for gRPC are given."""
    networking = service.spec.networking
    if networking.gateway is None or not networking.grpc_hostnames:
        return []
    route = child(RESOURCE, service, annotations=networking.gateway.annotations)
    route["spec"] = {
        "parentRefs": [each.json() for each in networking.gateway.parent_refs],
        "hostnames": list(networking.grpc_hostnames),
        "rules": [{"backendRefs": [{"name": service.name, "port": networking.ports.grpc}]}],
    }
    return [route]
