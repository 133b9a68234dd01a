"""The Ingresses: one for HTTP and one for gRPC, because controllers tell the two apart by annotations."""

from collections.abc import Sequence

from charonia_operator.naming import JSON, ResourceKind, child
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("networking.k8s.io/v1", "Ingress", "ingresses")


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """An Ingress for each protocol that has hosts; without any host, one for HTTP on every host."""
    networking = service.spec.networking
    ingress = networking.ingress
    if ingress is None:
        return []
    built = []
    if networking.hostnames or not networking.grpc_hostnames:
        http = child(RESOURCE, service, annotations=ingress.annotations)
        http["spec"] = _spec(service, networking.hostnames, service.path_prefix or "/", "http")
        built.append(http)
    if networking.grpc_hostnames:
        annotations = {**ingress.annotations, **ingress.grpc_annotations}
        grpc = child(RESOURCE, service, suffix="-grpc", annotations=annotations)
        grpc["spec"] = _spec(service, networking.grpc_hostnames, "/", "grpc")
        built.append(grpc)
    return built


def _spec(service: InferenceServiceSpec, hosts: Sequence[str], path: str, port: str) -> JSON:
    networking = service.spec.networking
    backend = {"service": {"name": service.name, "port": {"name": port}}}
    http = {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}
    spec: JSON = {"rules": [{"host": host, "http": http} for host in hosts] or [{"http": http}]}
    if networking.ingress and networking.ingress.class_name:
        spec["ingressClassName"] = networking.ingress.class_name
    if networking.tls and hosts:
        spec["tls"] = [{"hosts": list(hosts), "secretName": networking.tls.secret_ref.name}]
    return spec
