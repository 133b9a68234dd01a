"""`InnerServer`: the engine as its own models see it, which call other models while they run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from charonia_runtime.core.request import ANY_VERSION, InferenceRequest
from charonia_runtime.core.server import (
    IndexEntry,
    InferenceServer,
    ModelMetadata,
    ServedModel,
    ServerMetadata,
    VersionStatistics,
)


class InnerServer:
    """
    Passes everything on to `server` but requests, which go to `submit`. Implements `core.server.InferenceServer`.

    What a model asks while the server stops belongs to a request that was accepted before: it is not refused.
    """

    def __init__(self, server: InferenceServer, submit: Callable[[InferenceRequest], None]) -> None:
        self.shared_memory = server.shared_memory
        self.settings = server.settings
        self.tracing = server.tracing
        self.custom_metrics = server.custom_metrics
        self.answers = server.answers
        self.cache_use = server.cache_use
        self.submit = submit
        self._server = server

    def find_model(self, name: str, version: int = ANY_VERSION) -> ServedModel:
        return self._server.find_model(name, version)

    def cancel(self, request: InferenceRequest) -> None:
        self._server.cancel(request)

    async def is_live(self) -> bool:
        return await self._server.is_live()

    async def is_ready(self) -> bool:
        return await self._server.is_ready()

    async def is_model_ready(self, name: str, version: int = ANY_VERSION) -> bool:
        return await self._server.is_model_ready(name, version)

    async def server_metadata(self) -> ServerMetadata:
        return await self._server.server_metadata()

    async def model_metadata(self, name: str, version: int = ANY_VERSION) -> ModelMetadata:
        return await self._server.model_metadata(name, version)

    async def model_config(self, name: str, version: int = ANY_VERSION) -> Mapping[str, Any]:
        return await self._server.model_config(name, version)

    async def statistics(self, name: str = "", version: int = ANY_VERSION) -> Sequence[VersionStatistics]:
        return await self._server.statistics(name, version)

    async def repository_index(self, *, ready: bool = False) -> Sequence[IndexEntry]:
        return await self._server.repository_index(ready=ready)

    async def load_model(
        self, name: str, *, config: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> None:
        await self._server.load_model(name, config=config, files=files)

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        await self._server.unload_model(name, unload_dependents=unload_dependents)
