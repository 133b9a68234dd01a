"""The model repository: index, load, unload."""

from functools import partial
from typing import Final

from fastapi import APIRouter, Response

from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.frontends.v2_http.control.answers import Body, Model, NewestRules, Server, json_answer
from charonia_runtime.frontends.v2_http.control.route import router
from charonia_runtime.frontends.v2_http.reading import read_document
from charonia_runtime.protocols.v2_documents import render_index
from charonia_runtime.protocols.v2_json.control import decode_index, decode_load, decode_unload

repository = router("model-repository")


@repository.post("/v2/repository/index")
@repository.post("/v2/repository/{repository}/index")
async def index(server: Server, body: Body, newest_rules: NewestRules) -> Response:
    ready = await read_document(partial(decode_index, newest_rules=newest_rules), body)
    return json_answer(render_index(await server.repository_index(ready=ready)))


@repository.post("/v2/repository/models/{model}/load")
async def load(server: Server, model: Model, body: Body) -> Response:
    wanted = await read_document(decode_load, body)
    await server.load_model(model.name, config=wanted.config, files=wanted.files)
    return json_answer()


@repository.post("/v2/repository/models/{model}/unload")
async def unload(server: Server, model: Model, body: Body) -> Response:
    await server.unload_model(model.name, unload_dependents=await read_document(decode_unload, body))
    return json_answer()


@repository.post("/v2/repository/{repository}/models/{model}/load")
@repository.post("/v2/repository/{repository}/models/{model}/unload")
async def refuse_named_repository() -> Response:
    raise UnsupportedError("'repository_name' specification is not supported")


ROUTERS: Final[tuple[APIRouter, ...]] = (repository,)
