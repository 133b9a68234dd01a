"""The container that installs the Python packages of models, with the server image's own interpreter."""

from charonia_operator.naming import JSON
from charonia_operator.pod.containers import container, resources_json, server_image
from charonia_operator.pod.volumes import PACKAGE_SETTINGS, PACKAGES, package_mounts
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.spec.serving import Python

INSTALL = "python-packages"
_SCRIPT = (
    'printf "%s\\n" "$REQUIREMENTS" > /tmp/requirements.txt && '
    'exec timeout "$INSTALL_SECONDS" python3 -m pip install "$@"'
)


def package_containers(service: InferenceServiceSpec, settings: Settings) -> list[JSON]:
    """An init container, where packages are asked for."""
    python = service.spec.python
    if python is None:
        return []
    environment = {
        "HOME": "/tmp",  # noqa: S108 - the pod's own volume
        "INSTALL_SECONDS": str(python.timeout_seconds),
        "REQUIREMENTS": "\n".join(python.requirements),
    }
    if python.config_secret_ref:
        environment["PIP_CONFIG_FILE"] = f"{PACKAGE_SETTINGS}/pip.conf"
    policy = service.spec.server.image_pull_policy or settings.image_pull_policy
    return [
        {
            **container(INSTALL, server_image(service, settings), policy),
            "command": ["sh", "-c", _SCRIPT, "install", *_arguments(service, python)],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "resources": resources_json(service.spec.resources),
            "volumeMounts": package_mounts(service),
        }
    ]


def _arguments(service: InferenceServiceSpec, python: Python) -> list[str]:
    arguments = [f"--target={PACKAGES}", "--upgrade", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    if python.index_url:
        arguments.append(f"--index-url={python.index_url}")
    arguments += [f"--extra-index-url={url}" for url in python.extra_index_urls]
    if python.require_hashes:
        arguments.append("--require-hashes")
    if python.requirements:
        arguments.append("--requirement=/tmp/requirements.txt")
    if python.requirements_path:
        arguments.append(f"--requirement={_requirements_file(service, python.requirements_path)}")
    return arguments


def _requirements_file(service: InferenceServiceSpec, path: str) -> str:
    repository = service.spec.model_repository
    if path.startswith("/") or repository is None:
        return path
    return f"{repository.mount_path}/{path}"
