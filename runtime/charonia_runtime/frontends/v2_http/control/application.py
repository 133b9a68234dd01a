"""All control routes in one application."""

import logging

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.frontends.v2_http.answers import NOT_FOUND, error_answer
from charonia_runtime.frontends.v2_http.control import memory, models, repository, settings
from charonia_runtime.frontends.v2_http.control.answers import json_answer, text_answer
from charonia_runtime.frontends.v2_http.services import Services

logger = logging.getLogger(__name__)


def control_application(services: Services) -> FastAPI:
    """The application; its handlers find `services` in its state."""
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    application.state.services = services
    for group in (settings, models, repository, memory):
        for routes in group.ROUTERS:
            application.include_router(routes)
    application.add_exception_handler(InferenceError, _refuse)
    application.add_exception_handler(HTTPException, _not_found)
    return application


async def _refuse(request: Request, error: Exception) -> Response:
    refusal = error if isinstance(error, InferenceError) else InternalError("unexpected error")
    status, body = error_answer(refusal)
    answer = text_answer if request.scope["route"].category == "health" else json_answer
    return answer(body, status)


async def _not_found(_: Request, __: Exception) -> Response:
    """The router's only own refusal: methods are refused by the routes themselves."""
    return text_answer(NOT_FOUND, 404)
