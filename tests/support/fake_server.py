"""
`FakeServer`: an `InferenceServer` whose models are functions, for the tests of frontends.

    server = FakeServer()
    server.add(a_config("simple"), lambda request: [answer(request, {"OUTPUT": array})])
    server.add(echo_config())                # the default function sends the inputs back
    frontend = Frontend(Options(), server)
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from charonia_runtime.core.answers import AnswerCounts
from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.custom_metrics import CustomMetrics
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    InferenceError,
    InvalidArgumentError,
    NotFoundError,
)
from charonia_runtime.core.missing_models import unknown_model, unknown_version, unready_version
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest, InferenceResponse, ParameterValue
from charonia_runtime.core.server import (
    CudaRegion,
    IndexEntry,
    ModelMetadata,
    ServedModel,
    ServerMetadata,
    SystemRegion,
    TensorMetadata,
    VersionStatistics,
)
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.core.tracing import NO_TRACING, Tracing

Respond = Callable[[InferenceRequest], Iterable[InferenceResponse] | None]
"""Request → its responses in order; the last one is made final. None leaves it open: see `FakeServer.answer`."""


def answer(
    request: InferenceRequest,
    outputs: Mapping[str, np.ndarray[Any, Any] | Tensor],
    *,
    parameters: Mapping[str, ParameterValue] | None = None,
    version: int = 1,
) -> InferenceResponse:
    """A successful response with `outputs`."""
    tensors = [
        array if isinstance(array, Tensor) else Tensor.from_numpy(name, array) for name, array in outputs.items()
    ]
    return InferenceResponse(request.model_name, version, request.id, tensors, parameters or {})


def failure(request: InferenceRequest, error: InferenceError, *, version: int = 1) -> InferenceResponse:
    """A response that carries an error."""
    return InferenceResponse(request.model_name, version, request.id, error=error)


def end(request: InferenceRequest, *, version: int = 1) -> InferenceResponse:
    """The final flag alone, as a decoupled model sends it after its last response."""
    return InferenceResponse(request.model_name, version, request.id, flag_only=True)


def echo(request: InferenceRequest) -> list[InferenceResponse]:
    """Every input comes back: `IN…` as `OUT…`, any other under its own name; only requested ones, if any are named."""
    wanted = {output.name for output in request.outputs}
    outputs = [
        Tensor(_output_name(tensor.name), tensor.datatype, tensor.shape, tensor.data)
        for tensor in request.inputs.values()
    ]
    kept = [tensor for tensor in outputs if not wanted or tensor.name in wanted]
    return [InferenceResponse(request.model_name, 1, request.id, kept)]


def echo_config(
    name: str = "echo", datatype: DataType = DataType.FP32, dims: tuple[int, ...] = (-1,), *, max_batch_size: int = 0
) -> ModelConfig:
    """A model with one tensor `INPUT` and one `OUTPUT`, for `echo`."""
    return ModelConfig(
        name,
        backend="identity",
        max_batch_size=max_batch_size,
        inputs=(TensorSpec("INPUT", datatype, dims),),
        outputs=(TensorSpec("OUTPUT", datatype, dims),),
    )


@dataclass
class FakeModel:
    """One served version."""

    config: ModelConfig
    version: int
    respond: Respond
    ready: bool = True
    statistics: ModelStatistics = field(default_factory=ModelStatistics)


class FakeSharedMemory:
    """Regions in dictionaries; nothing is mapped. `error`, when set, is raised by every method."""

    def __init__(self) -> None:
        self.system: dict[str, SystemRegion] = {}
        self.cuda: dict[str, CudaRegion] = {}
        self.handles: dict[str, bytes] = {}
        self.error: InferenceError | None = None

    async def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        self._check(name)
        self.system[name] = SystemRegion(name, key, offset, byte_size)

    async def register_cuda(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        self._check(name)
        self.handles[name] = raw_handle
        self.cuda[name] = CudaRegion(name, device_id, byte_size)

    async def system_regions(self, name: str = "") -> Sequence[SystemRegion]:
        if name and name not in self.system:
            raise NotFoundError(f"Unable to find system shared memory region: '{name}'")
        return [region for key, region in sorted(self.system.items()) if not name or key == name]

    async def cuda_regions(self, name: str = "") -> Sequence[CudaRegion]:
        if name and name not in self.cuda:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{name}'")
        return [region for key, region in sorted(self.cuda.items()) if not name or key == name]

    async def unregister_system(self, name: str = "") -> None:
        self._forget(self.system, name)

    async def unregister_cuda(self, name: str = "") -> None:
        self._forget(self.cuda, name)

    def _check(self, name: str) -> None:
        if self.error is not None:
            raise self.error
        if name in self.system or name in self.cuda:
            raise InvalidArgumentError(f"shared memory region '{name}' already in manager")

    def _forget(self, regions: dict[str, Any], name: str) -> None:
        if self.error is not None:
            raise self.error
        if name:
            regions.pop(name, None)
        else:
            regions.clear()


class FakeSettings:
    """Settings that accept everything and remember what was asked. `error`, when set, is raised by both updates."""

    def __init__(self) -> None:
        self.trace_settings: dict[str, tuple[str, ...]] = {
            "trace_level": ("OFF",), "trace_rate": ("1000",), "trace_count": ("-1",), "log_frequency": ("0",),
            "trace_file": ("",), "trace_mode": ("triton",),
        }  # fmt: skip
        self.log_settings: dict[str, bool | int | str] = {
            "log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0,
            "log_format": "default",
        }  # fmt: skip
        self.trace_changes: list[tuple[str, Mapping[str, Sequence[str] | None]]] = []
        self.log_changes: list[Mapping[str, bool | int | str]] = []
        self.error: InferenceError | None = None

    async def trace(self, model: str = "") -> Mapping[str, tuple[str, ...]]:
        if model not in {"", "echo"}:
            raise InvalidArgumentError(f"Request for unknown model : {model}")
        return self.trace_settings

    async def update_trace(
        self, changes: Mapping[str, Sequence[str] | None], model: str = ""
    ) -> Mapping[str, tuple[str, ...]]:
        self.trace_changes.append((model, changes))
        if self.error is not None:
            raise self.error
        self.trace_settings.update({key: tuple(values) for key, values in changes.items() if values is not None})
        return self.trace_settings

    async def log(self) -> Mapping[str, bool | int | str]:
        return self.log_settings

    async def update_log(self, changes: Mapping[str, bool | int | str]) -> Mapping[str, bool | int | str]:
        self.log_changes.append(changes)
        if self.error is not None:
            raise self.error
        self.log_settings.update(changes)
        return self.log_settings


class FakeServer:
    """
    An `InferenceServer` that runs functions. Responses reach the sink in later turns of the loop, as the engine's do.

    What it was asked: `requests`, `cancelled`, `loads`, `unloads`, and the like of `shared_memory` and `settings`.
    What it says: `live`, `ready`, `metadata`, `index`, `documents` (name → configuration document), `load_error`.
    """

    cache_use: CacheUse | None = None

    def __init__(self) -> None:
        self.answers = AnswerCounts()
        self.shared_memory = FakeSharedMemory()
        self.settings = FakeSettings()
        self.custom_metrics = CustomMetrics()
        self.tracing: Tracing = NO_TRACING
        self.models: dict[str, dict[int, FakeModel]] = {}
        self.requests: list[InferenceRequest] = []
        self.submitted = asyncio.Event()
        self.cancelled: list[InferenceRequest] = []
        self.cancel_arrived = asyncio.Event()
        self.loads: list[tuple[str, str | None, Mapping[str, bytes] | None]] = []
        self.unloads: list[tuple[str, bool]] = []
        self.live = True
        self.ready = True
        self.metadata = ServerMetadata("triton", "0.1.0", ("classification", "sequence", "statistics"))
        self.index: list[IndexEntry] = []
        self.documents: dict[str, Mapping[str, Any]] = {}
        self.load_error: InferenceError | None = None
        self.submit_error: Exception | None = None
        self.record = True
        self._watchers: list[Callable[[str], None]] = []

    def add(
        self,
        config: ModelConfig,
        respond: Respond = echo,
        *,
        version: int = 1,
        ready: bool = True,
        statistics: ModelStatistics | None = None,
    ) -> FakeModel:
        """Serve `config` with `respond`; False for `ready` makes a version that is known and not ready."""
        model = FakeModel(config, version, respond, ready, statistics or ModelStatistics())
        self.models.setdefault(config.name, {})[version] = model
        self._tell(config.name)
        return model

    # --- inference ---

    def find_model(self, name: str, version: int = ANY_VERSION) -> ServedModel:
        model = self._find(name, version)
        return ServedModel(model.config, model.version)

    def submit(self, request: InferenceRequest) -> None:
        if self.submit_error is not None:
            raise self.submit_error
        model = self._find(request.model_name, request.model_version)
        if self.record:
            self.requests.append(request)
            self.submitted.set()
        responses = model.respond(request)
        if responses is not None:
            self.answer(request, responses)

    def answer(self, request: InferenceRequest, responses: Iterable[InferenceResponse]) -> None:
        """Send `responses`, the last one final, to a request that its model left open."""
        loop = asyncio.get_running_loop()
        kept = list(responses)
        for index, response in enumerate(kept):
            response.final = index == len(kept) - 1
            loop.call_soon(request.sink.send, response)

    def cancel(self, request: InferenceRequest) -> None:
        request.cancelled = True
        self.cancelled.append(request)
        self.cancel_arrived.set()

    # --- what others keep in mind ---

    def model_names(self) -> Sequence[str]:
        return sorted(self.models)

    def served_versions(self, name: str) -> Mapping[int, ServedModel | None] | None:
        versions = self.models.get(name)
        if versions is None:
            return None
        return {
            number: ServedModel(model.config, number) if model.ready else None for number, model in versions.items()
        }

    def watch_models(self, changed: Callable[[str], None]) -> Callable[[], None]:
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def _tell(self, name: str) -> None:
        for changed in tuple(self._watchers):
            changed(name)

    # --- health and documents ---

    async def is_live(self) -> bool:
        return self.live

    async def is_ready(self) -> bool:
        return self.ready

    async def is_model_ready(self, name: str, version: int = ANY_VERSION) -> bool:
        try:
            self._find(name, version)
        except InferenceError:
            return False
        return True

    async def server_metadata(self) -> ServerMetadata:
        return self.metadata

    async def model_metadata(self, name: str, version: int = ANY_VERSION) -> ModelMetadata:
        config = self._find(name, version).config
        ready = sorted(number for number, model in self.models[name].items() if model.ready)
        return ModelMetadata(
            name,
            tuple(ready) if version == ANY_VERSION else (version,),
            config.platform or config.backend,
            tuple(TensorMetadata(spec.name, spec.datatype, config.full_shape(spec)) for spec in config.inputs),
            tuple(TensorMetadata(spec.name, spec.datatype, config.full_shape(spec)) for spec in config.outputs),
        )

    async def model_config(self, name: str, version: int = ANY_VERSION) -> Mapping[str, Any]:
        config = self._find(name, version).config
        return self.documents.get(name) or config.document or {"name": config.name}

    async def statistics(self, name: str = "", version: int = ANY_VERSION) -> Sequence[VersionStatistics]:
        if name and not any(model.ready for model in self.models.get(name, {}).values()):
            raise InvalidArgumentError(f"requested model '{name}' is not available")
        if name and version != ANY_VERSION and version not in self.models[name]:
            raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return [
            VersionStatistics(known, number, model.config, model.statistics)
            for known, versions in sorted(self.models.items())
            for number, model in sorted(versions.items())
            if model.ready and known == (name or known) and version in {ANY_VERSION, number}
        ]

    # --- repository ---

    async def repository_index(self, *, ready: bool = False) -> Sequence[IndexEntry]:
        return [entry for entry in self.index if not ready or entry.state == "READY"]

    async def load_model(
        self, name: str, *, config: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> None:
        self.loads.append((name, config, files))
        if self.load_error is not None:
            raise self.load_error

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        self.unloads.append((name, unload_dependents))
        for version, model in self.models.get(name, {}).items():
            self.models[name][version] = replace(model, ready=False)
        self._tell(name)

    def _find(self, name: str, version: int) -> FakeModel:
        versions = self.models.get(name)
        if versions is None:
            raise unknown_model(name)
        if version == ANY_VERSION:
            ready = [model for model in versions.values() if model.ready]
            if not ready:
                raise unknown_version(name, version)
            return max(ready, key=lambda model: model.version)
        if version not in versions:
            raise unknown_version(name, version)
        if not versions[version].ready:
            raise unready_version(name, version)
        return versions[version]


def _output_name(name: str) -> str:
    return f"OUT{name[2:]}" if name.startswith("IN") else name
