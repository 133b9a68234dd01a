"""Trace and log settings."""

from typing import Final

from fastapi import APIRouter, Response

from charonia_runtime.frontends.v2_http.control.answers import Body, Model, Server, json_answer
from charonia_runtime.frontends.v2_http.control.route import router
from charonia_runtime.frontends.v2_http.reading import read_document
from charonia_runtime.protocols.v2_documents import render_log_settings, render_trace_settings
from charonia_runtime.protocols.v2_json.control import decode_log_changes, decode_trace_changes

trace = router("trace")
logging = router("logging")


@trace.get("/v2/trace/setting")
async def trace_settings(server: Server) -> Response:
    return json_answer(render_trace_settings(await server.settings.trace()))


@trace.post("/v2/trace/setting")
async def update_trace_settings(server: Server, body: Body) -> Response:
    changes = await read_document(decode_trace_changes, body)
    return json_answer(render_trace_settings(await server.settings.update_trace(changes)))


@trace.get("/v2/models/{model}/trace/setting")
async def model_trace_settings(server: Server, model: Model) -> Response:
    return json_answer(render_trace_settings(await server.settings.trace(model.name)))


@trace.post("/v2/models/{model}/trace/setting")
async def update_model_trace_settings(server: Server, model: Model, body: Body) -> Response:
    await server.settings.trace(model.name)  # an unknown model is refused before a faulty body, as by Triton 2.51
    changes = await read_document(decode_trace_changes, body)
    return json_answer(render_trace_settings(await server.settings.update_trace(changes, model.name)))


@logging.get("/v2/logging")
async def log_settings(server: Server) -> Response:
    return json_answer(render_log_settings(await server.settings.log()))


@logging.post("/v2/logging")
async def update_log_settings(server: Server, body: Body) -> Response:
    for change in await read_document(decode_log_changes, body):
        await server.settings.update_log(change)
    return json_answer(render_log_settings(await server.settings.log()))


ROUTERS: Final[tuple[APIRouter, ...]] = (trace, logging)
