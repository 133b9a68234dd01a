"""The volumes of a pod, and where its containers see them."""

from charonia_operator.naming import JSON
from charonia_operator.spec.additions import Storage
from charonia_operator.spec.repository import Cache, ModelRepository
from charonia_operator.spec.service import InferenceServiceSpec

STORE = "/var/lib/charonia/models"
"""Where copies of the repository are kept; the folder that the server reads only links to them."""
CREDENTIALS = "/var/run/charonia/credentials"
AUTHORITIES = "/var/run/charonia/authorities"
TOKENS = "/var/run/charonia/tokens"
PACKAGES = "/var/lib/charonia/python"
PACKAGE_SETTINGS = "/var/run/charonia/pip"


def volumes(service: InferenceServiceSpec) -> list[JSON]:
    """Every volume of the pod."""
    spec = service.spec
    found: list[JSON] = [{"name": "tmp", "emptyDir": {}}]
    if spec.model_repository:
        found += _repository_volumes(service, spec.model_repository)
    if spec.shared_memory:
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": spec.shared_memory.size}})
    if spec.python:
        found.append({"name": "python", "emptyDir": {}})
        if spec.python.config_secret_ref:
            found.append(_secret("pip", spec.python.config_secret_ref.name))
    if spec.access.type == "Token":
        found.append({"name": "tokens", "projected": {"defaultMode": 0o440, "sources": _token_sources(service)}})
    return [*found, *({"name": each.name, **each.sources} for each in spec.storage)]


def server_mounts(service: InferenceServiceSpec) -> list[JSON]:
    """What the server's container sees."""
    spec = service.spec
    found = [_mount("tmp", "/tmp")]  # noqa: S108 - the pod's own volume
    if spec.model_repository:
        found += repository_mounts(spec.model_repository, read_only=True)
    if spec.shared_memory:
        found.append(_mount("shm", "/dev/shm"))  # noqa: S108
    if spec.python:
        found.append(_mount("python", PACKAGES, read_only=True))
    if spec.access.type == "Token":
        found.append(_mount("tokens", TOKENS, read_only=True))
    return [*found, *(_storage_mount(each) for each in spec.storage)]


def repository_mounts(repository: ModelRepository, *, read_only: bool) -> list[JSON]:
    """The models: a claim's folder as it is, or links in `mountPath` and the copies that they point to."""
    if not repository.is_synced:
        mount = _mount("models", repository.mount_path, read_only=True)
        return [mount | {"subPath": repository.folder} if repository.folder else mount]
    return [_mount("models", repository.mount_path, read_only), _mount("store", STORE, read_only)]


def sync_mounts(repository: ModelRepository) -> list[JSON]:
    """What the container that copies models sees; the only one that sees the bucket's credentials."""
    found = [_mount("tmp", "/tmp"), *repository_mounts(repository, read_only=False)]  # noqa: S108
    if repository.credentials.secret_ref:
        found.append(_mount("credentials", CREDENTIALS, read_only=True))
    if repository.ca_bundle_ref:
        found.append(_mount("authorities", AUTHORITIES, read_only=True))
    return found


def package_mounts(service: InferenceServiceSpec) -> list[JSON]:
    """What the container that installs Python packages sees."""
    spec = service.spec
    found = [_mount("tmp", "/tmp"), _mount("python", PACKAGES)]  # noqa: S108
    if spec.model_repository:
        found += repository_mounts(spec.model_repository, read_only=True)
    if spec.python and spec.python.config_secret_ref:
        found.append(_mount("pip", PACKAGE_SETTINGS, read_only=True))
    return found


def _repository_volumes(service: InferenceServiceSpec, repository: ModelRepository) -> list[JSON]:
    if not repository.is_synced:
        claim = {"claimName": repository.location, "readOnly": True}
        return [{"name": "models", "persistentVolumeClaim": claim}]
    found: list[JSON] = [{"name": "models", "emptyDir": {}}, {"name": "store"} | _store(service, repository.cache)]
    if repository.credentials.secret_ref:
        found.append(_secret("credentials", repository.credentials.secret_ref.name))
    if repository.ca_bundle_ref:
        bundle = repository.ca_bundle_ref
        items = [{"key": bundle.key, "path": "ca.crt"}]
        found.append({"name": "authorities", "configMap": {"name": bundle.name, "items": items}})
    return found


def _store(service: InferenceServiceSpec, cache: Cache) -> JSON:
    if cache.type == "PersistentVolumeClaim" and cache.persistent_volume_claim:
        claim = cache.persistent_volume_claim.claim_name or cache_claim_name(service)
        return {"persistentVolumeClaim": {"claimName": claim}}
    directory: JSON = {}
    if cache.type == "Memory":
        directory["medium"] = "Memory"
    if cache.size_limit:
        directory["sizeLimit"] = cache.size_limit
    return {"emptyDir": directory}


def cache_claim_name(service: InferenceServiceSpec) -> str:
    """The claim that is made for the service's copies."""
    return f"{service.name}-models"


def _token_sources(service: InferenceServiceSpec) -> list[JSON]:
    return [
        {"secret": {"name": each.name, "items": [{"key": each.key, "path": f"{each.name}/{each.key}"}]}}
        for each in service.spec.access.token_secret_refs
    ]


def _storage_mount(storage: Storage) -> JSON:
    mount = _mount(storage.name, storage.mount_path, storage.read_only)
    return mount | {"subPath": storage.sub_path} if storage.sub_path else mount


def _secret(name: str, secret: str) -> JSON:
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def _mount(name: str, path: str, read_only: bool = False) -> JSON:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
