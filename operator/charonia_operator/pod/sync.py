"""The containers that copy the model repository: one before the server starts, one beside it where it is followed."""

from charonia_operator.naming import JSON
from charonia_operator.pod.containers import container, resources_json
from charonia_operator.pod.volumes import AUTHORITIES, CREDENTIALS, STORE, sync_mounts
from charonia_operator.settings import Settings
from charonia_operator.spec.quantity import Quantity
from charonia_operator.spec.repository import ComputeResources, ModelRepository
from charonia_operator.spec.service import InferenceServiceSpec

SYNC = "model-sync"
WATCH = "model-watch"
_STATUS_PORT = 8003
_RESOURCES = ComputeResources(
    requests={"cpu": Quantity("100m"), "memory": Quantity("256Mi")}, limits={"memory": Quantity("512Mi")}
)


def sync_containers(service: InferenceServiceSpec, settings: Settings) -> list[JSON]:
    """Init containers; the second one of mode Poll keeps running (restartPolicy Always)."""
    repository = service.spec.model_repository
    if repository is None or not repository.is_synced:
        return []
    arguments = sync_arguments(service, repository)
    port = status_port(service)
    page = [f"--status-port={port}"] if port else []
    containers = [_container(SYNC, ["--once", *page, *arguments], repository, settings)]
    if follows(service):
        pace = f"--interval-seconds={repository.sync.interval_seconds}"
        following = ["--watch", pace, *page, *arguments]
        containers.append(_container(WATCH, following, repository, settings) | {"restartPolicy": "Always"})
    return containers


def follows(service: InferenceServiceSpec) -> bool:
    """Whether a container beside the server follows the bucket."""
    repository = service.spec.model_repository
    return repository is not None and repository.is_synced and repository.sync.mode == "Poll"


def status_port(service: InferenceServiceSpec) -> int:
    """
    Where the containers that copy tell how that goes; 0 where there are none.

    In the node's own network a port may be another pod's, and a copy that nobody follows does without.
    """
    repository, ports = service.spec.model_repository, service.spec.networking.ports
    host_network = ((service.spec.pod_template or {}).get("spec") or {}).get("hostNetwork")
    if repository is None or not repository.is_synced or (host_network and not follows(service)):
        return 0
    taken = {ports.http, ports.grpc, ports.metrics}
    return next(port for port in range(_STATUS_PORT, _STATUS_PORT + 4) if port not in taken)


def _container(name: str, arguments: list[str], repository: ModelRepository, settings: Settings) -> JSON:
    sync = repository.sync
    return {
        **container(name, settings.copying_image, settings.image_pull_policy),
        "command": ["charonia", "sync", *arguments],
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - the pod's own volume
        "resources": resources_json(sync.resources if sync.resources != ComputeResources() else _RESOURCES),
        "volumeMounts": sync_mounts(repository),
    }


def sync_arguments(service: InferenceServiceSpec, repository: ModelRepository) -> list[str]:
    """What follows `charonia sync --once`, without what is not set."""
    credentials, sync = repository.credentials, repository.sync
    store = STORE
    if repository.cache.type == "PersistentVolumeClaim":
        store = f"{STORE}/{service.name}"  # a claim may serve several services
    keys = {
        "accessKeyId": credentials.keys.access_key_id,
        "accessKeySecret": credentials.keys.access_key_secret,
        "sessionToken": credentials.keys.session_token,
        "serviceAccountKey": credentials.keys.service_account_key,
    }
    limit = repository.cache.size_limit
    flags: list[tuple[str, object]] = [
        ("store", store),
        ("endpoint", repository.endpoint),
        ("region", repository.region),
        ("addressing-style", {"VirtualHosted": "virtual", "Path": "path"}.get(repository.addressing_style)),
        ("credentials-dir", CREDENTIALS if credentials.secret_ref else ""),
        *(("credentials-key", f"{setting}={key}") for setting, key in keys.items() if key),
        ("ca-bundle", f"{AUTHORITIES}/ca.crt" if repository.ca_bundle_ref else ""),
        ("revision", repository.revision),
        *(("include", pattern) for pattern in repository.include),
        *(("exclude", pattern) for pattern in repository.exclude),
        ("integrity", repository.integrity),
        ("manifest", repository.manifest),
        ("size-limit", int(limit.number()) if limit else ""),
        ("parallelism", sync.parallelism),
        ("stall-timeout-seconds", sync.stall_timeout_seconds),
        ("history-limit", sync.history_limit),
    ]
    anonymous = ["--anonymous"] if credentials.source == "Anonymous" else []
    return [repository.uri, repository.mount_path, *(f"--{name}={value}" for name, value in flags if value), *anonymous]
