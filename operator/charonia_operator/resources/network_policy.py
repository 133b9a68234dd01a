"""The NetworkPolicy: who may open connections to the pods, and where the pods may open some to."""

from urllib.parse import urlsplit

from charonia_operator.naming import JSON, ResourceKind, child, selector
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_HTTPS = 443


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """
    One policy where the service asks for it.

    Metrics stay open to the whole cluster, for Prometheus; the operator's namespace may ask for models and progress.
    """
    policy = service.spec.networking.network_policy
    if policy is None:
        return []
    built = child(RESOURCE, service)
    built["spec"] = {
        "podSelector": {"matchLabels": selector(service)},
        "policyTypes": ["Ingress", *(["Egress"] if policy.egress == "StorageAndDNS" else [])],
        "ingress": _ingress(service, settings),
    }
    if policy.egress == "StorageAndDNS":
        built["spec"]["egress"] = _egress(service)
    return [built]


def _ingress(service: InferenceServiceSpec, settings: Settings) -> list[JSON]:
    networking = service.spec.networking
    policy, ports = networking.network_policy, networking.ports
    given = [dict(peer) for peer in policy.from_] if policy else []
    callers: list[JSON] = given or [{"podSelector": {}}]
    gateways = {parent.namespace for parent in networking.gateway.parent_refs} if networking.gateway else set()
    callers += [_namespace(name) for name in sorted(gateways - {""})]
    rules: list[JSON] = [
        {"from": callers, "ports": [_tcp(ports.http), _tcp(ports.grpc)]},
        {"from": [{"namespaceSelector": {}}], "ports": [_tcp(ports.metrics)]},
    ]
    if settings.own_namespace:
        rules.append({"from": [_namespace(settings.own_namespace)]})
    return rules


def _egress(service: InferenceServiceSpec) -> list[JSON]:
    """Names, the bucket's port, and HTTPS where packages are installed: a policy cannot tell hosts by their names."""
    repository = service.spec.model_repository
    storage = {_port(repository.endpoint)} if repository and repository.is_synced else set()
    ports = storage | ({_HTTPS} if service.spec.python else set())
    return [
        {"ports": [{"protocol": "UDP", "port": 53}, _tcp(53)]},
        *({"ports": [_tcp(port)]} for port in sorted(ports)),
    ]


def _port(endpoint: str) -> int:
    if not endpoint:
        return _HTTPS
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    return parts.port or (80 if parts.scheme == "http" else _HTTPS)


def _namespace(name: str) -> JSON:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: name}}}


def _tcp(port: int) -> JSON:
    return {"protocol": "TCP", "port": port}
