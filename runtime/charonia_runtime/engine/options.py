"""What the command line says to the engine: which models to serve, how they are controlled, settings for backends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.followed_triton import FollowedTriton, parse_followed_triton
from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.core.streams import STREAM_BUFFER_BYTES

EVERY_MODEL = "*"
"""The value of `--load-model` that stands for all models of the repositories."""


class ControlMode(Enum):
    """`--model-control-mode`: who decides what is loaded after start-up."""

    NONE = "none"
    POLL = "poll"
    EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The parsed `--backend-config` flags: settings of every backend, and those of each by name."""

    everyone: Mapping[str, str] = field(default_factory=dict)
    by_backend: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, backend: str) -> dict[str, str]:
        """What `backend` is told; its own settings win over the global ones."""
        return {**self.everyone, **self.by_backend.get(backend, {})}


@dataclass(frozen=True)
class EngineOptions:
    """
    Flags of the engine, with tritonserver's names.

    Raises OptionError for a malformed value, InvalidArgumentError for flags that contradict each other.
    """

    server_id: str = option("triton", "Name of this server in its metadata and logs.", flag="id")
    server_version_compatibility: str = option(
        "",
        "Show this version of Triton as the server's own, and follow its rules: those of 2.51 up to that release, the "
        "newest ones for a later release, where clients also need --allow-client-shm=true to register shared memory. "
        "Without it the server shows its own version and follows the newest rules, but lets clients register.",
        metavar="<version>",
    )
    exit_timeout_secs: int = option(
        30, "Seconds that a stop may take: requests in flight finish, models unload. Then the process exits anyway."
    )
    drain_secs: int = option(
        0,
        "Seconds between the signal to stop and the stop: the server is not ready any more, but serves what still "
        "comes until load balancers notice. HTTP connections close with their next answer; gRPC clients are told to "
        "connect elsewhere (with --grpc-transport=grpcio their connections live half as long as this, at all times, "
        "unless --grpc-max-connection-age says otherwise).",
    )
    model_repositories: tuple[str, ...] = option(
        (), "Directory that holds models, or s3://<bucket>/<path>, gs://<bucket>/<path>, "
        "as://<account>/<container>/<path>, oss://<bucket>/<path>. May be given several times.",
        flag="model-repository", aliases=("model-store",), metavar="<directory>",
    )  # fmt: skip
    exit_on_error: bool = option(True, "Exit when a model or a repository fails during start-up.")
    disable_auto_complete_config: bool = option(
        False, "Require complete configurations; nothing is derived from model files.", switch=True
    )
    strict_model_config: bool = option(False, "Deprecated: use --disable-auto-complete-config.")
    strict_readiness: bool = option(
        True, "Be ready only while every model is. False: be ready as soon as the server runs."
    )
    steady_readiness: bool = option(
        False,
        "Once ready, stay so while every model that serves can: versions that load, or fail to, beside them do not "
        "count any more. For repositories that change under a server that load balancers watch.",
    )
    model_control_mode: str = option(
        "none",
        "none: load every model at start-up. poll: also follow changes of the repositories. explicit: load what "
        "--load-model names, then obey the load and unload API.",
        metavar="<none|poll|explicit>",
    )
    repository_poll_secs: int = option(15, "Seconds between two polls in mode poll. 0 does not poll after start-up.")
    repository_retry_secs: int = option(
        30, "How long a bucket that cannot be reached is asked again before the start, or the poll, fails (s)."
    )
    load_model: tuple[str, ...] = option(
        (), "Model to load at start-up in mode explicit; '*' for all. May be given several times.", metavar="<name>"
    )
    model_config_name: str = option(
        "", "Read configs/<name>.pbtxt of a model where it exists, else its config.pbtxt.", metavar="<name>"
    )
    model_load_thread_count: int = option(4, "How many models may load at the same time.")
    model_load_retry_count: int = option(0, "How often a failing load is tried again.")
    model_namespacing: bool = option(
        False,
        "Let models of different repositories have the same name. Clients reach such models only through ensembles, "
        "whose steps mean the models of their own repository first.",
    )
    backend_directory: str = option(
        "/opt/tritonserver/backends",
        "Directory with backends of your own: <directory>/<backend>/backend.py, or model.py for one that is written "
        "like a python model.",
        metavar="<directory>",
    )
    allow_batch_strategies: bool = option(
        False,
        "Let models bring a batchstrategy.py, whose code runs in the server's own process. Only for repositories whose "
        "writers you trust.",
    )
    backend_config: tuple[str, ...] = option(
        (), "Setting of one backend, or of all. May be given several times.", metavar="<backend>,<setting>=<value>"
    )
    min_supported_compute_capability: float = option(6.0, "Least CUDA compute capability of the GPUs to use.")
    stream_buffer_size: int = field(default=STREAM_BUFFER_BYTES)
    """How many bytes of responses may wait for a step of an ensemble; no flag of the engine alone."""

    def __post_init__(self) -> None:
        if self.model_control_mode.lower() not in {mode.value for mode in ControlMode}:
            raise OptionError("model-control-mode", "invalid argument for --model-control-mode")
        for name, least in (
            ("exit_timeout_secs", 0),
            ("drain_secs", 0),
            ("repository_poll_secs", 0),
            ("repository_retry_secs", 0),
            ("model_load_thread_count", 1),
            ("model_load_retry_count", 0),
        ):
            value = getattr(self, name)
            if value < least:
                flag = name.replace("_", "-")
                raise OptionError(flag, f"invalid value for --{flag}: expected an integer >= {least}, got {value}")
        self.triton  # noqa: B018 - refuse what is no version
        self.backend_settings  # noqa: B018 - refuse malformed settings now, not when a model loads
        if self.load_model and self.control_mode is not ControlMode.EXPLICIT:
            raise InvalidArgumentError(
                "Use of '--load-model' requires setting '--model-control-mode=explicit' as well."
            )

    @property
    def triton(self) -> FollowedTriton:
        """The release of Triton whose rules apply where releases differ."""
        return parse_followed_triton(self.server_version_compatibility)

    @property
    def control_mode(self) -> ControlMode:
        return ControlMode(self.model_control_mode.lower())

    @property
    def startup_models(self) -> Sequence[str] | None:
        """The models to load first; None for all. Raises InvalidArgumentError where '*' is not alone."""
        named = self.load_model
        if self.control_mode is not ControlMode.EXPLICIT or named == (EVERY_MODEL,):
            return None
        if EVERY_MODEL in named:
            raise InvalidArgumentError("Wildcard model name '*' must be the ONLY startup model if specified at all.")
        return sorted(set(named))

    @property
    def auto_complete(self) -> bool:
        """Whether backends may fill in what a configuration leaves open."""
        return not (self.disable_auto_complete_config or self.strict_model_config)

    @property
    def backend_settings(self) -> BackendSettings:
        """Every `--backend-config`, later ones win, together with what the server always tells its backends."""
        everyone = {
            "auto-complete-config": "true" if self.auto_complete else "false",
            "backend-directory": self.backend_directory,
            "min-compute-capability": f"{self.min_supported_compute_capability:f}",
            "default-max-batch-size": "4",
        }
        by_backend: dict[str, dict[str, str]] = {}
        for text in self.backend_config:
            backend, setting, value = parse_backend_setting(text)
            (by_backend.setdefault(backend, {}) if backend else everyone)[setting] = value
        return BackendSettings(everyone, by_backend)

    def with_repository(self, directory: str) -> "EngineOptions":
        """The same options for one repository more."""
        return replace(self, model_repositories=(*self.model_repositories, directory))


def parse_backend_setting(text: str) -> tuple[str, str, str]:
    """`<backend>,<setting>=<value>` or `<setting>=<value>` to its parts. Raises OptionError."""
    comma, equals = text.find(","), text.find("=")
    if comma == 0:
        raise OptionError(
            "backend-config",
            "No backend specified. --backend-config option format is <backend name>,<setting>=<value> or "
            f"<setting>=<value>. Got {text}",
        )
    if equals == -1:
        raise OptionError(
            "backend-config",
            f"--backend-config option format is '<backend name>,<setting>=<value>'. Got {text}",
        )
    start = comma + 1 if 0 < comma < equals else 0
    setting, value = text[start:equals], text[equals + 1 :]
    if not setting or not value:
        raise OptionError(
            "backend-config",
            f"--backend-config option format is '<backend name>,<setting>=<value>'. Got {text}",
        )
    return text[: max(start - 1, 0)], setting, value
