"""The regions and settings of a server in another process."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from charonia_runtime.core.server import CudaRegion, LogSettings, SystemRegion, TraceSettings
from charonia_runtime.remote.documents import read_cuda_regions, read_system_regions


class Call(Protocol):
    """Calls a method of the server, one of `calls.METHODS`. Raises the InferenceError that it raises."""

    async def __call__(self, method: str, /, **arguments: Any) -> Any: ...


class RemoteSharedMemory:
    """Implements `core.server.SharedMemory`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        await self._call("register_system", name=name, key=key, offset=offset, byte_size=byte_size)

    async def register_cuda(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        await self._call(
            "register_cuda", name=name, raw_handle=raw_handle.hex(), device_id=device_id, byte_size=byte_size
        )

    async def system_regions(self, name: str = "") -> Sequence[SystemRegion]:
        return read_system_regions(await self._call("system_regions", name=name))

    async def cuda_regions(self, name: str = "") -> Sequence[CudaRegion]:
        return read_cuda_regions(await self._call("cuda_regions", name=name))

    async def unregister_system(self, name: str = "") -> None:
        await self._call("unregister_system", name=name)

    async def unregister_cuda(self, name: str = "") -> None:
        await self._call("unregister_cuda", name=name)


class RemoteSettings:
    """Implements `core.server.Settings`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def trace(self, model: str = "") -> TraceSettings:
        return _trace_settings(await self._call("trace", model=model))

    async def update_trace(self, changes: Mapping[str, Sequence[str] | None], model: str = "") -> TraceSettings:
        return _trace_settings(await self._call("update_trace", changes=dict(changes), model=model))

    async def log(self) -> LogSettings:
        settings: LogSettings = await self._call("log")
        return settings

    async def update_log(self, changes: Mapping[str, bool | int | str]) -> LogSettings:
        settings: LogSettings = await self._call("update_log", changes=dict(changes))
        return settings


def _trace_settings(document: Mapping[str, Sequence[str]]) -> TraceSettings:
    return {name: tuple(values) for name, values in document.items()}
