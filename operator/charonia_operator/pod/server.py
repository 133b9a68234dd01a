"""The container that serves: its command line, environment, devices and probes."""

from charonia_operator.naming import JSON
from charonia_operator.pod.containers import container, resources_json, server_image
from charonia_operator.pod.volumes import PACKAGES, TOKENS, server_mounts
from charonia_operator.settings import Settings
from charonia_operator.spec.repository import ComputeResources
from charonia_operator.spec.service import InferenceServiceSpec
from charonia_operator.spec.serving import Gpu

SERVER = "server"
_PROBE_PERIOD_SECONDS = 5
_LEAST_EXIT_SECONDS = 1
_SECONDS_LEFT_FOR_THE_EXIT = 5
_FOLLOWING_SECONDS = 5
"""How often the server looks for a switched copy; the bucket is asked at the pace of `sync.intervalSeconds`."""


def server_container(service: InferenceServiceSpec, settings: Settings) -> JSON:
    """The container named `server`."""
    spec = service.spec
    policy = spec.server.image_pull_policy or settings.image_pull_policy
    ports = spec.networking.ports
    built = {
        **container(SERVER, server_image(service, settings), policy),
        "command": server_command(service),
        "args": _own_arguments(service),
        "env": _environment(service),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in (("http", ports.http), ("grpc", ports.grpc), ("metrics", ports.metrics))
        ],
        "resources": _resources(service, settings),
        "volumeMounts": server_mounts(service),
        **_probes(service),
    }
    if spec.server.env_from:
        built["envFrom"] = [dict(each) for each in spec.server.env_from]
    if spec.drain.pre_stop_delay_seconds and not _drains_itself(service):
        built["lifecycle"] = {"preStop": {"sleep": {"seconds": spec.drain.pre_stop_delay_seconds}}}
    return {key: value for key, value in built.items() if value not in ({}, [])}


def server_command(service: InferenceServiceSpec) -> list[str]:
    """
    The server's whole command line: the user's own, or one of flags that the server understands.

    Empty for a custom server without a command: its image has an entry point.
    """
    spec = service.spec
    if spec.server.kind == "Custom":
        return [*spec.server.command, *spec.server.args] if spec.server.command else []
    ports = spec.networking.ports
    flags: list[tuple[str, object]] = [
        ("model-repository", spec.model_repository.mount_path if spec.model_repository else "/models"),
        ("http-port", ports.http),
        ("grpc-port", ports.grpc),
        ("metrics-port", ports.metrics),
        *_end(service),
        ("exit-on-error", "false"),  # a model that fails is told in the status, not hidden in a crash loop
        *_model_control(service),
        *_readiness(service),
        *([("log-verbose", spec.server.logging.verbose)] if spec.server.logging.verbose else []),
        *([("log-format", "ISO8601")] if spec.server.logging.format == "ISO8601" else []),
        *_path_prefix(service),
        *_access(service),
    ]
    return ["tritonserver", *(f"--{name}={value}" for name, value in flags), *spec.server.args]


def gpu_resources(gpu: Gpu | None, settings: Settings) -> dict[str, str]:
    """The extended resource that the pod asks for."""
    if gpu is None or gpu.count == 0:
        return {}
    name = gpu.resource_name or settings.gpu_resource
    if gpu.mig_profile:
        name = f"nvidia.com/mig-{gpu.mig_profile}"
    return {name: str(gpu.count)}


def _resources(service: InferenceServiceSpec, settings: Settings) -> JSON:
    """The service's own resources; the cluster's defaults where it asks for nothing."""
    own, gpus = service.spec.resources, gpu_resources(service.spec.gpu, settings)
    if own == ComputeResources() and settings.resources:
        own = ComputeResources(settings.resources.get("requests", {}), settings.resources.get("limits", {}))
    return resources_json(own, gpus)


def _own_arguments(service: InferenceServiceSpec) -> list[str]:
    """Arguments of the image's own entry point, where there is no command line of ours or the user's."""
    server = service.spec.server
    return list(server.args) if server.kind == "Custom" and not server.command else []


def _drains_itself(service: InferenceServiceSpec) -> bool:
    """Whether the server knows Charonia's own flags, of which one lets it leave load balancers before it stops."""
    return service.spec.server.kind == "Charonia"


def _path_prefix(service: InferenceServiceSpec) -> list[tuple[str, object]]:
    """The prefix that an Ingress leaves on; a Gateway takes it off, and Triton has no such flag."""
    if not service.path_prefix or service.spec.networking.gateway or service.spec.server.kind != "Charonia":
        return []
    return [("path-prefix", service.path_prefix)]


def _end(service: InferenceServiceSpec) -> list[tuple[str, object]]:
    """
    How long a stop may take.

    Charonia drains by itself: it says at once that it is not ready, and moves connections. Others sleep before.
    """
    drain = service.spec.drain
    left = drain.termination_grace_period_seconds - drain.pre_stop_delay_seconds - _SECONDS_LEFT_FOR_THE_EXIT
    flags: list[tuple[str, object]] = [("exit-timeout-secs", max(left, _LEAST_EXIT_SECONDS))]
    if drain.pre_stop_delay_seconds and _drains_itself(service):
        flags.append(("drain-secs", drain.pre_stop_delay_seconds))
    return flags


def _readiness(service: InferenceServiceSpec) -> list[tuple[str, object]]:
    """
    What pods whose models change under them say of themselves.

    Triton is not ready while a new version loads or after it failed, although the old one serves: every pod would leave
    the Service at once. Charonia stays ready once it was. Triton can only be told that models do not count at all.
    """
    if _control_mode(service) != "Poll":
        return []
    ours = service.spec.server.kind == "Charonia"
    return [("steady-readiness", "true")] if ours else [("strict-readiness", "false")]


def _control_mode(service: InferenceServiceSpec) -> str:
    server, repository = service.spec.server, service.spec.model_repository
    if server.model_control != "Auto":
        return server.model_control
    follows = repository is not None and repository.sync.mode == "Poll"
    return "Poll" if follows else "Explicit" if server.load_models else "None"


def _model_control(service: InferenceServiceSpec) -> list[tuple[str, object]]:
    server, mode = service.spec.server, _control_mode(service)
    found: list[tuple[str, object]] = [("model-control-mode", mode.lower())]
    if mode == "Poll":
        found.append(("repository-poll-secs", _FOLLOWING_SECONDS))
    if mode == "Explicit":
        found += [("load-model", name) for name in server.load_models or ("*",)]
    return found


def _access(service: InferenceServiceSpec) -> list[tuple[str, object]]:
    """Clients show a token; the operator, which has none, reads the list of models beside the metrics."""
    if service.spec.access.type != "Token":
        return []
    files = [f"{TOKENS}/{each.name}/{each.key}" for each in service.spec.access.token_secret_refs]
    return [*(("access-token-file", file) for file in files), ("metrics-config", "repository_index=true")]


def _environment(service: InferenceServiceSpec) -> list[JSON]:
    """HOME and PYTHONPATH unless the user's own stand in their place, then the user's."""
    own = [dict(each) for each in service.spec.server.env]
    names = {each["name"] for each in own}
    environment = [{"name": "HOME", "value": "/tmp"}] if "HOME" not in names else []  # noqa: S108 - the pod's own
    if service.spec.python:
        given = next((each.get("value", "") for each in own if each["name"] == "PYTHONPATH"), "")
        own = [each for each in own if each["name"] != "PYTHONPATH"]
        environment.append({"name": "PYTHONPATH", "value": f"{PACKAGES}:{given}" if given else PACKAGES})
    return [*environment, *own]


def _probes(service: InferenceServiceSpec) -> JSON:
    probes = service.spec.probes
    ready = {"httpGet": {"path": "/v2/health/ready", "port": "http"}, "timeoutSeconds": 3}
    live = {"httpGet": {"path": "/v2/health/live", "port": "http"}, "timeoutSeconds": 5}
    own = {
        # Live, not ready: a server whose models fail shall say so in its status, and not be killed for it.
        # Every second, which costs little and ends with the first answer: what serves shall not wait to be seen.
        "startupProbe": {**live, "periodSeconds": 1, "failureThreshold": probes.startup_timeout_seconds},
        "readinessProbe": {**ready, "periodSeconds": _PROBE_PERIOD_SECONDS, "failureThreshold": 3},
        "livenessProbe": {**live, "periodSeconds": 10, "failureThreshold": 6},
    }
    given = {"startupProbe": probes.startup, "readinessProbe": probes.readiness, "livenessProbe": probes.liveness}
    return {name: dict(given[name] or probe) for name, probe in own.items()}
