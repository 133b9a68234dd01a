"""The parts of `spec` that shape the server's container: the server, its packages, devices, probes and its end."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

from charonia_operator.spec.quantity import Quantity
from charonia_operator.spec.reading import JSON, Bounds
from charonia_operator.spec.repository import SecretReference


@dataclass(frozen=True, slots=True)
class Logging:
    """What the server logs."""

    verbose: Annotated[int, Bounds(0, 9)] = 0
    format: Literal["Default", "ISO8601"] = "Default"


_NVIDIA_IMAGE = re.compile(r"(^|/)tritonserver([:@]|$)")

ServerKind = Literal["Charonia", "Triton", "Custom"]


@dataclass(frozen=True, slots=True)
class Server:
    """
    The server's image and command line. `type` says which flags and which manner of stopping it knows.

    Raises ValueError for fields that do not go with the type.
    """

    type: Literal["", "Charonia", "Triton", "Custom"] = ""
    image: str = ""
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[JSON, ...] = ()
    env_from: tuple[JSON, ...] = ()
    model_control: Literal["Auto", "None", "Poll", "Explicit"] = "Auto"
    load_models: tuple[str, ...] = ()
    logging: Logging = field(default_factory=Logging)

    def __post_init__(self) -> None:
        if self.command and self.type not in ("", "Custom"):
            raise ValueError("command is for type Custom: add flags to the generated command line with args")
        if self.type == "Triton" and not self.image:
            raise ValueError("type Triton needs image")
        if self.type == "Custom" and not (self.image or self.command):
            raise ValueError("type Custom needs image or command")

    @property
    def kind(self) -> ServerKind:
        """
        The type, also where the spec leaves it open.

        A command of one's own makes a server Custom, an image that is called tritonserver makes it Triton. Any other
        image is taken for Charonia's, mirrored or extended.
        """
        if self.type:
            return self.type
        if self.command:
            return "Custom"
        return "Triton" if _NVIDIA_IMAGE.search(self.image) else "Charonia"


@dataclass(frozen=True, slots=True)
class Python:
    """Packages that the models import, installed at the start of each pod by the server image's own interpreter."""

    requirements: tuple[str, ...] = ()
    requirements_path: str = ""
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    config_secret_ref: SecretReference | None = None
    require_hashes: bool = False
    timeout_seconds: Annotated[int, Bounds(10, 7200)] = 900

    def __post_init__(self) -> None:
        if not self.requirements and not self.requirements_path:
            raise ValueError("give requirements or requirementsPath")


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPUs of each pod."""

    count: Annotated[int, Bounds(0, 64)] = 1
    resource_name: str = ""
    mig_profile: str = ""
    products: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The file system in memory at /dev/shm. What lies there counts as memory of the pod."""

    size: Quantity


@dataclass(frozen=True, slots=True)
class Probes:
    """The kubelet's questions; a probe given here replaces the operator's own."""

    startup_timeout_seconds: Annotated[int, Bounds(10, 86400)] = 1800
    startup: JSON | None = None
    readiness: JSON | None = None
    liveness: JSON | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """How a pod ends: it leaves the endpoints, waits, and finishes what is in flight."""

    pre_stop_delay_seconds: Annotated[int, Bounds(0, 600)] = 10
    termination_grace_period_seconds: Annotated[int, Bounds(1, 86400)] = 60

    def __post_init__(self) -> None:
        if self.pre_stop_delay_seconds >= self.termination_grace_period_seconds:
            raise ValueError("preStopDelaySeconds must be below terminationGracePeriodSeconds")


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Where pods run."""

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[JSON, ...] = ()
    affinity: JSON | None = None
    topology_spread_constraints: tuple[JSON, ...] = ()
    spread: Literal["None", "Host", "Zone"] = "Host"
    priority_class_name: str = ""
    runtime_class_name: str = ""
    scheduler_name: str = ""
