"""The seam above the engine: all that a frontend, or a model calling other models, may ask of an inference server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from charonia_runtime.core.answers import AnswerCounts
from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.custom_metrics import CustomMetrics
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.core.tracing import Tracing


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    name: str
    datatype: DataType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the metadata endpoint shows; `versions` are the ready ones, ascending."""

    name: str
    versions: tuple[int, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the repository index; None fields are absent (a model that was never loaded)."""

    name: str
    version: int | None = None
    state: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The version that answers a request for a model, now."""

    config: ModelConfig
    version: int


@dataclass(frozen=True, slots=True)
class VersionStatistics:
    """The counters of one ready version. `config` gives the metrics their labels."""

    name: str
    version: int
    config: ModelConfig
    statistics: ModelStatistics
    earlier: ModelStatistics | None = None
    """Counters of the copies that reloads replaced: metrics survive a reload, the statistics endpoint starts anew."""
    namespace: str = ""
    """The repository of the model, where models of several repositories may have one name."""


@dataclass(frozen=True, slots=True)
class SystemRegion:
    """A registered POSIX shared-memory region; `offset` and `byte_size` in bytes."""

    name: str
    key: str
    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class CudaRegion:
    """A registered CUDA IPC region."""

    name: str
    device_id: int
    byte_size: int


class SharedMemory(Protocol):
    """Regions that clients register. Every method may raise InferenceError with Triton's text."""

    async def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None: ...

    async def register_cuda(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None: ...

    async def system_regions(self, name: str = "") -> Sequence[SystemRegion]:
        """All regions by name, or the one called `name`."""

    async def cuda_regions(self, name: str = "") -> Sequence[CudaRegion]:
        """All regions by name, or the one called `name`."""

    async def unregister_system(self, name: str = "") -> None:
        """Forget the region, or all. Unknown names are no error."""

    async def unregister_cuda(self, name: str = "") -> None:
        """Forget the region, or all. Unknown names are no error."""


TraceSettings = Mapping[str, tuple[str, ...]]
"""Setting → its values as text, in the order that answers show them (`trace_level` may have several)."""
LogSettings = Mapping[str, bool | int | str]
"""`log_file`, `log_info`, `log_warning`, `log_error`, `log_verbose_level`, `log_format`, in this order."""


class Settings(Protocol):
    """Trace and log settings that may change at run time. Methods may raise InferenceError with Triton's text."""

    async def trace(self, model: str = "") -> TraceSettings:
        """The global settings, or those of a ready model."""

    async def update_trace(self, changes: Mapping[str, Sequence[str] | None], model: str = "") -> TraceSettings:
        """Apply changes (None clears a setting) and return the result."""

    async def log(self) -> LogSettings: ...

    async def update_log(self, changes: Mapping[str, bool | int | str]) -> LogSettings:
        """Apply changes one by one, in Triton's order; an error leaves the earlier ones applied."""


class InferenceServer(Protocol):
    """
    An inference server as its frontends see it: the engine in this process, or a channel to it from another.

    Used on one event loop. `version` is `ANY_VERSION` where the client names none. Methods raise `InferenceError` with
    the texts that Triton's clients know.
    """

    shared_memory: SharedMemory
    settings: Settings
    tracing: Tracing
    """Frontends ask it for a trace of each request while it is active, and hand that on with the request."""
    custom_metrics: CustomMetrics
    """What models count by themselves."""
    answers: AnswerCounts
    """What frontends answered; those in other processes send theirs."""
    cache_use: CacheUse | None
    """What happened to the response cache; None without one, or where it is not this server's own."""

    def find_model(self, name: str, version: int = ANY_VERSION) -> ServedModel:
        """The version that would serve a request now. Raises NotFoundError or UnavailableError. Cheap: no copy."""

    def submit(self, request: InferenceRequest) -> None:
        """
        Check the request and queue it. Raises InferenceError when it is refused; then the sink hears nothing.

        Otherwise its sink gets one or more responses, the last one final, always.
        """

    def cancel(self, request: InferenceRequest) -> None:
        """The client is gone: drop the request if it waits, flag it if it runs. Its sink still gets a final answer."""

    async def is_live(self) -> bool: ...

    async def is_ready(self) -> bool: ...

    async def is_model_ready(self, name: str, version: int = ANY_VERSION) -> bool: ...

    async def server_metadata(self) -> ServerMetadata: ...

    async def model_metadata(self, name: str, version: int = ANY_VERSION) -> ModelMetadata: ...

    async def model_config(self, name: str, version: int = ANY_VERSION) -> Mapping[str, Any]:
        """The complete configuration as Triton prints it."""

    async def statistics(self, name: str = "", version: int = ANY_VERSION) -> Sequence[VersionStatistics]:
        """Ready versions of one model, or of all, by name and version."""

    async def repository_index(self, *, ready: bool = False) -> Sequence[IndexEntry]: ...

    async def load_model(
        self, name: str, *, config: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> None:
        """
        Load or reload; returns when it serves.

        `config` is JSON text; `files` maps paths under the model's folder to their content.
        """

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        """Stop serving; returns at once, requests in flight finish."""


class MirroredServer(InferenceServer, Protocol):
    """An inference server of which others, in other processes, keep in mind what `find_model` says."""

    def model_names(self) -> Sequence[str]:
        """Every model that is known."""

    def served_versions(self, name: str) -> Mapping[int, ServedModel | None] | None:
        """
        What serves each version of a model, None for nothing; None of a model that is unknown.

        Raises InferenceError where the name means no model, or several.
        """

    def watch_models(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed` with a model's name whenever `served_versions` may have changed. Returns what ends that."""
