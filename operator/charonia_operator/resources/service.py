"""The Service in front of the pods: HTTP, gRPC and metrics on the pods' own ports."""

from charonia_operator.naming import JSON, ResourceKind, child, selector
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("v1", "Service", "services")


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """One Service."""
    options, ports = service.spec.networking.service, service.spec.networking.ports
    built = child(RESOURCE, service, extra_labels=options.labels, annotations=options.annotations)
    built["spec"] = {
        "type": options.type,
        "selector": selector(service),
        "ports": [
            _port("http", ports.http, "http"),
            _port("grpc", ports.grpc, "kubernetes.io/h2c"),
            _port("metrics", ports.metrics, "http"),
        ],
    }
    return [built]


def _port(name: str, port: int, protocol: str) -> JSON:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP", "appProtocol": protocol}
