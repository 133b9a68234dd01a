"""`pod_template`: the whole pod of a service."""

from collections.abc import Mapping
from typing import Any

from charonia_operator.naming import JSON, REVISION_LABEL, labels, revision_name
from charonia_operator.pod.containers import RESTRICTED
from charonia_operator.pod.merging import merge
from charonia_operator.pod.packages import package_containers
from charonia_operator.pod.placement import placement
from charonia_operator.pod.server import SERVER, server_container
from charonia_operator.pod.sync import sync_containers
from charonia_operator.pod.volumes import volumes
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec


def pod_template(service: InferenceServiceSpec, settings: Settings) -> JSON:
    """core/v1 PodTemplateSpec: what the operator makes of the spec, and `spec.podTemplate` laid over it."""
    built = {
        "metadata": {"labels": dict(service.spec.pod_metadata.labels), "annotations": _annotations(service)},
        "spec": _pod_spec(service, settings),
    }
    template: JSON = merge(built, service.spec.pod_template or {})
    # Last of all: the Deployment selects by these, and the operator finds pods by them.
    of_template = template.setdefault("metadata", {}).setdefault("labels", {})
    of_template |= labels(service) | {REVISION_LABEL: revision_name(service)}
    return template


def _annotations(service: InferenceServiceSpec) -> dict[str, str]:
    return {"kubectl.kubernetes.io/default-container": SERVER, **service.spec.pod_metadata.annotations}


def _pod_spec(service: InferenceServiceSpec, settings: Settings) -> JSON:
    spec = service.spec
    pod: JSON = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.drain.termination_grace_period_seconds,
        "securityContext": _security_context(settings.run_as_user),
        "initContainers": [
            *sync_containers(service, settings),
            *package_containers(service, settings),
            *(_restricted(each) for each in spec.init_containers),
        ],
        "containers": [server_container(service, settings), *(_restricted(each) for each in spec.sidecars)],
        "volumes": volumes(service),
        "imagePullSecrets": [{"name": name} for name in _pull_secrets(service, settings)],
        # By name also where it is the default one: the API server keeps a name that is only left out, by its old alias.
        "serviceAccountName": spec.service_account_name or "default",
        **placement(service, settings),
    }
    return {name: value for name, value in pod.items() if value not in ("", [], {})}


def _security_context(user: int) -> JSON:
    """The profile `restricted`; without a user, the cluster gives the ids, as OpenShift does for each namespace."""
    restricted: JSON = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if not user:
        return restricted
    ids = {"runAsUser": user, "runAsGroup": user, "fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"}
    return {"runAsNonRoot": True, **ids, "seccompProfile": restricted["seccompProfile"]}


def _restricted(container: Mapping[str, Any]) -> JSON:
    """A user's container with the security context of the operator's own, where it does not say otherwise."""
    merged: JSON = merge({"securityContext": RESTRICTED}, container)
    return merged


def _pull_secrets(service: InferenceServiceSpec, settings: Settings) -> list[str]:
    """The service's own Secrets, then those of the whole cluster."""
    own = [secret.name for secret in service.spec.image_pull_secrets]
    return list(dict.fromkeys([*own, *settings.image_pull_secrets]))
