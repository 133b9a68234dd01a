"""What handlers of control routes return, and what they take from a request."""

from typing import Annotated, NamedTuple, TypeAlias

from fastapi import Depends, Request, Response

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_documents import render_error


class ModelName(NamedTuple):
    """The model that a path names, and the version, `ANY_VERSION` where it names none."""

    name: str
    version: int


def json_answer(body: bytes = b"", status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def challenge(reason: str) -> Response:
    """The answer to a client that shows no valid access token."""
    return Response(render_error(reason), 401, {"www-authenticate": "Bearer"}, media_type="application/json")


def text_answer(body: bytes = b"", status: int = 200) -> Response:
    """An answer of Triton's default type, which has no charset."""
    return Response(body, status, {"content-type": "text/plain"})


def _server(request: Request) -> InferenceServer:
    server: InferenceServer = request.app.state.services.server
    return server


def _newest_rules(request: Request) -> bool:
    newest_rules: bool = request.app.state.services.newest_rules
    return newest_rules


def _model(request: Request) -> ModelName:
    return ModelName(request.path_params["model"], parse_version(request.path_params.get("version", "")))


def _region(request: Request) -> str:
    region: str = request.path_params.get("region", "")
    return region


async def _body(request: Request) -> bytes:
    return await request.body()


Server: TypeAlias = Annotated[InferenceServer, Depends(_server)]
Model: TypeAlias = Annotated[ModelName, Depends(_model)]
Region: TypeAlias = Annotated[str, Depends(_region)]
"""The shared-memory region that the path names; empty for all of them."""
Body: TypeAlias = Annotated[bytes, Depends(_body)]
NewestRules: TypeAlias = Annotated[bool, Depends(_newest_rules)]
"""Whether the request is checked as Triton's releases after 2.51 do."""
