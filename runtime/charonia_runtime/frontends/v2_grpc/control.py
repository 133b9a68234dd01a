"""Every call that is no inference: decode, ask the server, encode."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.calls import Buffer, Call, Listener
from charonia_runtime.frontends.v2_grpc.status import Status, status_of
from charonia_runtime.protocols import health_proto
from charonia_runtime.protocols.v2_proto import documents, memory, repository, settings

ControlCall = Callable[[bytes], Coroutine[Any, Any, bytes]]
"""The request's bytes → the response's."""
_EMPTY = b""
"""The bytes of a message without fields."""


class ControlCalls:
    """The calls by path, each with the category it can be restricted by."""

    def __init__(self, server: InferenceServer) -> None:
        self._server = server

    def table(self) -> dict[str, tuple[str, ControlCall]]:
        """Full method name → category, call."""
        calls: dict[str, tuple[str, ControlCall]] = {
            "ServerLive": ("health", self.server_live),
            "ServerReady": ("health", self.server_ready),
            "ModelReady": ("health", self.model_ready),
            "ServerMetadata": ("metadata", self.server_metadata),
            "ModelMetadata": ("metadata", self.model_metadata),
            "ModelConfig": ("model-config", self.model_config),
            "ModelStatistics": ("statistics", self.model_statistics),
            "RepositoryIndex": ("model-repository", self.repository_index),
            "RepositoryModelLoad": ("model-repository", self.repository_model_load),
            "RepositoryModelUnload": ("model-repository", self.repository_model_unload),
            "SystemSharedMemoryStatus": ("shared-memory", self.system_shared_memory_status),
            "SystemSharedMemoryRegister": ("shared-memory", self.system_shared_memory_register),
            "SystemSharedMemoryUnregister": ("shared-memory", self.system_shared_memory_unregister),
            "CudaSharedMemoryStatus": ("shared-memory", self.cuda_shared_memory_status),
            "CudaSharedMemoryRegister": ("shared-memory", self.cuda_shared_memory_register),
            "CudaSharedMemoryUnregister": ("shared-memory", self.cuda_shared_memory_unregister),
            "TraceSetting": ("trace", self.trace_setting),
            "LogSettings": ("logging", self.log_settings),
        }
        table = {f"/inference.GRPCInferenceService/{name}": call for name, call in calls.items()}
        table["/grpc.health.v1.Health/Check"] = ("health", self.health_check)
        return table

    # --- health and documents ---

    async def health_check(self, data: bytes) -> bytes:
        health_proto.decode_check(data)
        return health_proto.encode_check(ready=await self._server.is_ready())

    async def server_live(self, data: bytes) -> bytes:
        documents.decode_nothing(data)
        return documents.encode_live(live=await self._server.is_live())

    async def server_ready(self, data: bytes) -> bytes:
        documents.decode_nothing(data)
        return documents.encode_ready(ready=await self._server.is_ready())

    async def model_ready(self, data: bytes) -> bytes:
        name, version = documents.decode_model(data)
        return documents.encode_ready(ready=await self._server.is_model_ready(name, version))

    async def server_metadata(self, data: bytes) -> bytes:
        documents.decode_nothing(data)
        return documents.encode_server_metadata(await self._server.server_metadata())

    async def model_metadata(self, data: bytes) -> bytes:
        name, version = documents.decode_model(data)
        return documents.encode_model_metadata(await self._server.model_metadata(name, version))

    async def model_config(self, data: bytes) -> bytes:
        name, version = documents.decode_model(data)
        return documents.encode_model_config(await self._server.model_config(name, version))

    async def model_statistics(self, data: bytes) -> bytes:
        name, version = documents.decode_statistics(data)
        return documents.encode_statistics(await self._server.statistics(name, version))

    # --- repository ---

    async def repository_index(self, data: bytes) -> bytes:
        ready = repository.decode_index(data)
        return repository.encode_index(await self._server.repository_index(ready=ready))

    async def repository_model_load(self, data: bytes) -> bytes:
        load = repository.decode_load(data)
        await self._server.load_model(load.model_name, config=load.config, files=load.files or None)
        return _EMPTY

    async def repository_model_unload(self, data: bytes) -> bytes:
        unload = repository.decode_unload(data)
        await self._server.unload_model(unload.model_name, unload_dependents=unload.unload_dependents)
        return _EMPTY

    # --- shared memory ---

    async def system_shared_memory_status(self, data: bytes) -> bytes:
        name = memory.decode_region_name(data)
        return memory.encode_system_regions(await self._server.shared_memory.system_regions(name))

    async def system_shared_memory_register(self, data: bytes) -> bytes:
        region = memory.decode_system_registration(data)
        await self._server.shared_memory.register_system(region.name, region.key, region.offset, region.byte_size)
        return _EMPTY

    async def system_shared_memory_unregister(self, data: bytes) -> bytes:
        await self._server.shared_memory.unregister_system(memory.decode_region_name(data))
        return _EMPTY

    async def cuda_shared_memory_status(self, data: bytes) -> bytes:
        name = memory.decode_region_name(data)
        return memory.encode_cuda_regions(await self._server.shared_memory.cuda_regions(name))

    async def cuda_shared_memory_register(self, data: bytes) -> bytes:
        region = memory.decode_cuda_registration(data)
        await self._server.shared_memory.register_cuda(
            region.name, region.raw_handle, region.device_id, region.byte_size
        )
        return _EMPTY

    async def cuda_shared_memory_unregister(self, data: bytes) -> bytes:
        await self._server.shared_memory.unregister_cuda(memory.decode_region_name(data))
        return _EMPTY

    # --- settings ---

    async def trace_setting(self, data: bytes) -> bytes:
        request = settings.decode_trace(data)
        current = self._server.settings
        found = await current.trace(request.model_name)  # refuses an unknown model before a faulty setting, as Triton
        changes = request.changes()
        return settings.encode_trace(await current.update_trace(changes, request.model_name) if changes else found)

    async def log_settings(self, data: bytes) -> bytes:
        changes = settings.decode_log(data)
        current = self._server.settings
        return settings.encode_log(await current.update_log(changes) if changes else await current.log())


def control_method(answer: ControlCall, delay_seconds: float) -> Callable[[Call], Listener]:
    """Opens calls that `answer` answers, that long later."""

    def open_call(call: Call) -> Listener:
        return _ControlExchange(call, answer, delay_seconds)

    return open_call


class _ControlExchange:
    """One call: a task that asks the server."""

    __slots__ = ("_answer", "_call", "_delay_seconds", "_task")

    def __init__(self, call: Call, answer: ControlCall, delay_seconds: float) -> None:
        self._call = call
        self._answer = answer
        self._delay_seconds = delay_seconds
        self._task: asyncio.Task[None] | None = None

    def message(self, data: Buffer) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(bytes(data)))

    def half_closed(self) -> None:
        """Nothing: a unary call has had its message."""

    def aborted(self, _status: Status) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, data: bytes) -> None:
        try:
            answered = await self._answer(data)
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            self._call.end(status_of(error))
        else:
            self._call.respond([answered])
        finally:
            self._task = None
