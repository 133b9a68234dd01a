"""Secrets, ConfigMaps and claims that are named in the spec and missing, or lack a key."""

from collections.abc import Iterator
from re import Match
from typing import Any

from charonia_operator.naming import JSON
from charonia_operator.reasons import Reason
from charonia_operator.remedies.rule import Rule, rule
from charonia_operator.spec.service import InferenceServiceSpec

_MOUNTED = {Reason.SECRET_MISSING, Reason.CONFIGURATION_MISSING, Reason.VOLUME_NOT_MOUNTED}
_CREDENTIALS = "spec.modelRepository.credentials"
_CLAIM = "spec.modelRepository.cache.persistentVolumeClaim"


def _secret_missing(service: InferenceServiceSpec, found: Match[str]) -> str:
    name = found["name"]
    fields = [field for field, secret, _ in _secrets(service) if secret == name]
    keys = [key for _, secret, key in _secrets(service) if secret == name and key]
    wanted = f" with {_listed('key', keys)}" if keys else ""
    return f"Create Secret {name}{wanted}, or correct {_fields(fields)}; the pod starts within two minutes."


def _secret_key_missing(service: InferenceServiceSpec, found: Match[str]) -> str:
    key, name = found["key"].rstrip("."), found.groupdict().get("name") or ""
    owners = [(field, secret) for field, secret, own in _secrets(service) if own == key and name in {"", secret}]
    secret = name or (owners[0][1] if owners else "")
    where = f"Secret {secret}" if secret else "the Secret"
    return f"Put key {key} into {where}, or correct {_fields([field for field, _ in owners])}."


def _configuration_missing(service: InferenceServiceSpec, found: Match[str]) -> str:
    name = found["name"]
    fields = [field for field, own, _ in _configurations(service) if own == name]
    keys = [key for _, own, key in _configurations(service) if own == name and key]
    wanted = f" with {_listed('key', keys)}" if keys else ""
    return f"Create ConfigMap {name}{wanted}, or correct {_fields(fields)}; the pod starts within two minutes."


def _configuration_key_missing(service: InferenceServiceSpec, found: Match[str]) -> str:
    key, name = found["key"].rstrip("."), found.groupdict().get("name") or ""
    owners = [(field, own) for field, own, wanted in _configurations(service) if wanted == key and name in {"", own}]
    owner = name or (owners[0][1] if owners else "")
    where = f"ConfigMap {owner}" if owner else "the ConfigMap"
    return f"Put key {key} into {where}, or correct {_fields([field for field, _ in owners])}."


def _claim_missing(service: InferenceServiceSpec, found: Match[str]) -> str:
    return f"Create PersistentVolumeClaim {found['name']}, or correct {_claim_field(service, found['name'])}."


def _claim_unbound(service: InferenceServiceSpec, found: Match[str]) -> str:  # noqa: ARG001
    repository = service.spec.model_repository
    if repository is None:
        return "See kubectl describe pvc: its storage class must provide a volume."
    cache = repository.cache.persistent_volume_claim
    if repository.is_synced and cache and not cache.claim_name:
        text = f"See kubectl describe pvc {service.name}-models: correct {_CLAIM}.storageClassName or .accessModes"
        return f"{text}, which are those of the claim from its first day on."
    name = cache.claim_name if repository.is_synced and cache else repository.location
    return f"See kubectl describe pvc {name}: its storage class must provide a volume."


def _claim_field(service: InferenceServiceSpec, claim: str) -> str:
    repository = service.spec.model_repository
    if repository and not repository.is_synced and repository.location == claim:
        return "spec.modelRepository.uri"
    return f"{_CLAIM}.claimName"


def _secrets(service: InferenceServiceSpec) -> Iterator[tuple[str, str, str]]:
    """Field, Secret and key of every reference; the key is empty where any will do."""
    spec = service.spec
    repository = spec.model_repository
    if repository and repository.credentials.secret_ref:
        secret, keys = repository.credentials.secret_ref.name, repository.credentials.keys
        for key in (keys.access_key_id or "accessKeyId", keys.access_key_secret or "accessKeySecret"):
            yield f"{_CREDENTIALS}.secretRef", secret, key
    for index, token in enumerate(spec.access.token_secret_refs):
        yield f"spec.access.tokenSecretRefs[{index}]", token.name, token.key
    if spec.python and spec.python.config_secret_ref:
        yield "spec.python.configSecretRef", spec.python.config_secret_ref.name, "pip.conf"
    yield from _of_environment(service, "secretKeyRef", "secretRef")


def _configurations(service: InferenceServiceSpec) -> Iterator[tuple[str, str, str]]:
    """Field, ConfigMap and key of every reference; the key is empty where any will do."""
    repository = service.spec.model_repository
    if repository and repository.ca_bundle_ref:
        bundle = repository.ca_bundle_ref
        yield "spec.modelRepository.caBundleRef", bundle.name, bundle.key
    yield from _of_environment(service, "configMapKeyRef", "configMapRef")


def _of_environment(service: InferenceServiceSpec, one: str, all_of_it: str) -> Iterator[tuple[str, str, str]]:
    server = service.spec.server
    for index, variable in enumerate(server.env):
        reference: JSON = _map(_map(variable.get("valueFrom")).get(one))
        if reference:
            yield f"spec.server.env[{index}]", str(reference.get("name", "")), str(reference.get("key", ""))
    for index, source in enumerate(server.env_from):
        reference = _map(source.get(all_of_it))
        if reference:
            yield f"spec.server.envFrom[{index}]", str(reference.get("name", "")), ""


def _map(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _fields(fields: list[str]) -> str:
    return " and ".join(dict.fromkeys(fields)) or "the spec (spec.podTemplate)"


def _listed(word: str, names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return f"{word}{'s' if len(distinct) > 1 else ''} {' and '.join(distinct)}"


def _sync_keys_missing(service: InferenceServiceSpec, found: Match[str]) -> str:
    repository = service.spec.model_repository
    if repository is None or repository.credentials.secret_ref is None:
        return ""
    name = repository.credentials.secret_ref.name
    return f"Put key {found['key']} into Secret {name}, or name its own key in {_CREDENTIALS}.keys.{found['setting']}."


RULES: tuple[Rule, ...] = (
    rule(
        {Reason.UNSCHEDULABLE, Reason.VOLUME_NOT_MOUNTED},
        r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
        _claim_missing,
        Reason.CLAIM_MISSING,
    ),
    rule(
        {Reason.UNSCHEDULABLE, Reason.VOLUME_NOT_MOUNTED},
        r"unbound (immediate )?PersistentVolumeClaim|didn't find available persistent volumes",
        _claim_unbound,
        Reason.CLAIM_NOT_BOUND,
    ),
    rule(
        {Reason.SECRET_MISSING}, r"has no (?P<setting>\w+): expected a file (?P<key>[^\s,]+)", _sync_keys_missing
    ),
    rule(
        _MOUNTED, r'secret "(?P<name>[^"]+)" not found', _secret_missing, Reason.SECRET_MISSING
    ),
    rule(
        _MOUNTED,
        r"couldn't find key (?P<key>\S+) in Secret [^/\s]+/(?P<name>[^\s,]+)",
        _secret_key_missing,
        Reason.SECRET_MISSING,
    ),
    rule(
        _MOUNTED,
        r"references non-existent secret key: (?P<key>\S+)",
        _secret_key_missing,
        Reason.SECRET_MISSING,
    ),
    rule(
        _MOUNTED, r'configmap "(?P<name>[^"]+)" not found', _configuration_missing, Reason.CONFIGURATION_MISSING
    ),
    rule(
        _MOUNTED,
        r"couldn't find key (?P<key>\S+) in ConfigMap [^/\s]+/(?P<name>[^\s,]+)",
        _configuration_key_missing,
        Reason.CONFIGURATION_MISSING,
    ),
    rule(
        _MOUNTED,
        r"references non-existent config key: (?P<key>\S+)",
        _configuration_key_missing,
        Reason.CONFIGURATION_MISSING,
    ),
)  # fmt: skip
