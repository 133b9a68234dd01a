"""Shared-memory regions of clients."""

from typing import Final

from fastapi import APIRouter, Response

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.frontends.v2_http.control.answers import Body, Region, Server, json_answer
from charonia_runtime.frontends.v2_http.control.route import router
from charonia_runtime.frontends.v2_http.reading import read_document
from charonia_runtime.protocols.v2_documents import render_cuda_regions, render_system_regions
from charonia_runtime.protocols.v2_json.control import decode_cuda_registration, decode_system_registration

_SYSTEM: Final = "/v2/systemsharedmemory"
_CUDA: Final = "/v2/cudasharedmemory"
_REGION: Final = "/region/{region}"

memory = router("shared-memory")


@memory.get(f"{_SYSTEM}/status")
@memory.get(f"{_SYSTEM}{_REGION}/status")
async def system_status(server: Server, region: Region) -> Response:
    return json_answer(render_system_regions(await server.shared_memory.system_regions(region)))


@memory.post(f"{_SYSTEM}/register")
@memory.post(f"{_SYSTEM}{_REGION}/register")
async def register_system(server: Server, region: Region, body: Body) -> Response:
    if not region:
        raise InvalidArgumentError("'region name' is necessary to register system shared memory region")
    wanted = await read_document(decode_system_registration, body)
    await server.shared_memory.register_system(region, wanted.key, wanted.offset, wanted.byte_size)
    return json_answer()


@memory.post(f"{_SYSTEM}/unregister")
@memory.post(f"{_SYSTEM}{_REGION}/unregister")
async def unregister_system(server: Server, region: Region) -> Response:
    await server.shared_memory.unregister_system(region)
    return json_answer()


@memory.get(f"{_CUDA}/status")
@memory.get(f"{_CUDA}{_REGION}/status")
async def cuda_status(server: Server, region: Region) -> Response:
    return json_answer(render_cuda_regions(await server.shared_memory.cuda_regions(region)))


@memory.post(f"{_CUDA}/register")
@memory.post(f"{_CUDA}{_REGION}/register")
async def register_cuda(server: Server, region: Region, body: Body) -> Response:
    if not region:
        raise InvalidArgumentError("'region name' is necessary to register cuda shared memory region")
    wanted = await read_document(decode_cuda_registration, body)
    await server.shared_memory.register_cuda(region, wanted.raw_handle, wanted.device_id, wanted.byte_size)
    return json_answer()


@memory.post(f"{_CUDA}/unregister")
@memory.post(f"{_CUDA}{_REGION}/unregister")
async def unregister_cuda(server: Server, region: Region) -> Response:
    await server.shared_memory.unregister_cuda(region)
    return json_answer()


ROUTERS: Final[tuple[APIRouter, ...]] = (memory,)
