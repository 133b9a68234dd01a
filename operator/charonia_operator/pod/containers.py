"""What every container of a pod has in common."""

from charonia_operator.naming import JSON
from charonia_operator.settings import Settings
from charonia_operator.spec.repository import ComputeResources
from charonia_operator.spec.service import InferenceServiceSpec

RESTRICTED: JSON = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The Pod Security standard `restricted`, and a file system that nothing can be written to."""


def container(name: str, image: str, pull_policy: str) -> JSON:
    """A container of the restricted profile whose last words are kept when it fails."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": RESTRICTED,
    }


def server_image(service: InferenceServiceSpec, settings: Settings) -> str:
    """The image that serves, which also installs Python packages: the interpreters must be the same."""
    gpus = service.spec.gpu is not None and service.spec.gpu.count > 0
    return service.spec.server.image or (settings.runtime_gpu_image if gpus else settings.runtime_image)


def resources_json(resources: ComputeResources, extra: dict[str, str] | None = None) -> JSON:
    """core/v1 ResourceRequirements; `extra` is both asked for and the limit."""
    wanted = {
        "requests": {**resources.requests, **(extra or {})},
        "limits": {**resources.limits, **(extra or {})},
        "claims": [dict(claim) for claim in resources.claims],
    }
    return {key: value for key, value in wanted.items() if value}
