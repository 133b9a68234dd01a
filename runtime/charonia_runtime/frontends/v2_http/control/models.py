"""Health, metadata, configuration and statistics."""

from typing import Final

from fastapi import APIRouter, Response

from charonia_runtime.frontends.v2_http.control.answers import Model, Server, json_answer, text_answer
from charonia_runtime.frontends.v2_http.control.route import router
from charonia_runtime.protocols.v2_documents import (
    render_error,
    render_model_config,
    render_model_metadata,
    render_server_metadata,
    render_statistics,
)

_MODEL: Final = "/v2/models/{model}"
_VERSION: Final = "/v2/models/{model}/versions/{version:digits}"

health = router("health")
metadata = router("metadata")
configuration = router("model-config")
statistics = router("statistics")


@health.get("/v2/health/live")
async def live(server: Server) -> Response:
    return text_answer(status=200 if await server.is_live() else 400)


@health.get("/v2/health/ready")
async def ready(server: Server) -> Response:
    return text_answer(status=200 if await server.is_ready() else 400)


@health.get(f"{_MODEL}/ready")
@health.get(f"{_VERSION}/ready")
async def model_ready(server: Server, model: Model) -> Response:
    if await server.is_model_ready(*model):
        return text_answer()
    return text_answer(render_error("Model version not ready"), 400)


@metadata.get("/v2")
async def server_metadata(server: Server) -> Response:
    return json_answer(render_server_metadata(await server.server_metadata()))


@metadata.get(_MODEL)
@metadata.get(_VERSION)
async def model_metadata(server: Server, model: Model) -> Response:
    return json_answer(render_model_metadata(await server.model_metadata(*model)))


@configuration.get(f"{_MODEL}/config")
@configuration.get(f"{_VERSION}/config")
async def model_config(server: Server, model: Model) -> Response:
    return json_answer(render_model_config(await server.model_config(*model)))


@statistics.get("/v2/models/stats")
async def all_statistics(server: Server) -> Response:
    return json_answer(render_statistics(await server.statistics()))


@statistics.get(f"{_MODEL}/stats")
@statistics.get(f"{_VERSION}/stats")
async def model_statistics(server: Server, model: Model) -> Response:
    return json_answer(render_statistics(await server.statistics(*model)))


ROUTERS: Final[tuple[APIRouter, ...]] = (statistics, health, metadata, configuration)
"""Statistics first: `/v2/models/stats` is not a model of that name."""
