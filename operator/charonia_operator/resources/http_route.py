"""The Gateway API route for HTTP. It takes the path's prefix away, so that any server can be behind it."""

from charonia_operator.naming import JSON, ResourceKind, child
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", optional=True)


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """A route where a gateway is given, unless only gRPC has hosts."""
    networking = service.spec.networking
    if networking.gateway is None or (networking.grpc_hostnames and not networking.hostnames):
        return []
    rule: JSON = {
        "matches": [{"path": {"type": "PathPrefix", "value": service.path_prefix or "/"}}],
        "backendRefs": [{"name": service.name, "port": networking.ports.http}],
    }
    if service.path_prefix:
        rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
        rule["filters"] = [{"type": "URLRewrite", "urlRewrite": rewrite}]
    route = child(RESOURCE, service, annotations=networking.gateway.annotations)
    route["spec"] = {"parentRefs": [each.json() for each in networking.gateway.parent_refs], "rules": [rule]}
    if networking.hostnames:
        route["spec"]["hostnames"] = list(networking.hostnames)
    return [route]
