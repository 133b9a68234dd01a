"""The methods of a server that frontends in another process may call: arguments and results as JSON documents."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.remote import documents

Arguments = Mapping[str, Any]
Method = Callable[[InferenceServer, Arguments, Sequence[Tensor]], Awaitable[Any]]


async def _is_live(server: InferenceServer, _: Arguments, __: Sequence[Tensor]) -> bool:
    return await server.is_live()


async def _is_ready(server: InferenceServer, _: Arguments, __: Sequence[Tensor]) -> bool:
    return await server.is_ready()


async def _is_model_ready(server: InferenceServer, model: Arguments, _: Sequence[Tensor]) -> bool:
    return await server.is_model_ready(**model)


async def _server_metadata(server: InferenceServer, _: Arguments, __: Sequence[Tensor]) -> Any:
    return documents.write_server_metadata(await server.server_metadata())


async def _model_metadata(server: InferenceServer, model: Arguments, _: Sequence[Tensor]) -> Any:
    return documents.write_model_metadata(await server.model_metadata(**model))


async def _model_config(server: InferenceServer, model: Arguments, _: Sequence[Tensor]) -> Any:
    return await server.model_config(**model)


async def _statistics(server: InferenceServer, model: Arguments, _: Sequence[Tensor]) -> Any:
    return documents.write_statistics(await server.statistics(**model))


async def _repository_index(server: InferenceServer, which: Arguments, _: Sequence[Tensor]) -> Any:
    return documents.write_index(await server.repository_index(**which))


async def _load_model(server: InferenceServer, wanted: Arguments, contents: Sequence[Tensor]) -> None:
    files = {tensor.name: bytes(tensor.buffer) for tensor in contents} if wanted["has_files"] else None
    await server.load_model(wanted["name"], config=wanted["config"], files=files)


async def _unload_model(server: InferenceServer, wanted: Arguments, _: Sequence[Tensor]) -> None:
    await server.unload_model(**wanted)


async def _register_system(server: InferenceServer, region: Arguments, _: Sequence[Tensor]) -> None:
    await server.shared_memory.register_system(**region)


async def _register_cuda(server: InferenceServer, region: Arguments, _: Sequence[Tensor]) -> None:
    await server.shared_memory.register_cuda(**{**region, "raw_handle": bytes.fromhex(region["raw_handle"])})


async def _system_regions(server: InferenceServer, which: Arguments, _: Sequence[Tensor]) -> Any:
    return documents.write_system_regions(await server.shared_memory.system_regions(**which))


async def _cuda_regions(server: InferenceServer, which: Arguments, _: Sequence[Tensor]) -> Any:
    return documents.write_cuda_regions(await server.shared_memory.cuda_regions(**which))


async def _unregister_system(server: InferenceServer, which: Arguments, _: Sequence[Tensor]) -> None:
    await server.shared_memory.unregister_system(**which)


async def _unregister_cuda(server: InferenceServer, which: Arguments, _: Sequence[Tensor]) -> None:
    await server.shared_memory.unregister_cuda(**which)


async def _trace(server: InferenceServer, which: Arguments, _: Sequence[Tensor]) -> Any:
    return await server.settings.trace(**which)


async def _update_trace(server: InferenceServer, wanted: Arguments, _: Sequence[Tensor]) -> Any:
    return await server.settings.update_trace(**wanted)


async def _log(server: InferenceServer, _: Arguments, __: Sequence[Tensor]) -> Any:
    return await server.settings.log()


async def _update_log(server: InferenceServer, wanted: Arguments, _: Sequence[Tensor]) -> Any:
    return await server.settings.update_log(**wanted)


METHODS: Final[Mapping[str, Method]] = {
    "is_live": _is_live,
    "is_ready": _is_ready,
    "is_model_ready": _is_model_ready,
    "server_metadata": _server_metadata,
    "model_metadata": _model_metadata,
    "model_config": _model_config,
    "statistics": _statistics,
    "repository_index": _repository_index,
    "load_model": _load_model,
    "unload_model": _unload_model,
    "register_system": _register_system,
    "register_cuda": _register_cuda,
    "system_regions": _system_regions,
    "cuda_regions": _cuda_regions,
    "unregister_system": _unregister_system,
    "unregister_cuda": _unregister_cuda,
    "trace": _trace,
    "update_trace": _update_trace,
    "log": _log,
    "update_log": _update_log,
}
CHANGE_MODELS: Final = frozenset({"load_model", "unload_model"})
"""After these, what every process keeps in mind of the models is up to date before the caller hears of it."""
CHANGE_SETTINGS: Final = frozenset({"update_trace", "update_log"})
"""After these, processes hear of the settings that they follow."""
