"""How a control route is matched and refused."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from charonia_runtime.core.access import HEADER, OPEN_CATEGORY
from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.frontends.v2_http.answers import METHOD_NOT_ALLOWED
from charonia_runtime.frontends.v2_http.control.answers import challenge, json_answer, text_answer
from charonia_runtime.frontends.v2_http.services import Services
from charonia_runtime.protocols.v2_documents import render_error


class _Digits(Convertor[str]):
    """A version in a path: decimal digits, kept as they are written."""

    regex = "[0-9]+"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


register_url_convertor("digits", _Digits())


class ControlRoute(APIRoute):
    """A route of the category that its first tag names: may want a token or be restricted, and says so first."""

    @property
    def category(self) -> str:
        return str(self.tags[0])

    @override
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        services = _services(scope)
        if services.access_tokens is not None and self.category != OPEN_CATEGORY:
            shown = Headers(scope=scope).get(HEADER)
            refusal = services.access_tokens.refusal(None if shown is None else shown.encode("latin-1"))
            if refusal:
                await challenge(refusal)(scope, receive, send)
                return
        restriction = services.restrictions.get(self.category)
        if restriction is not None:
            try:
                restriction.check(Headers(scope=scope).get(restriction.header))
            except UnavailableError as error:
                await text_answer(render_error(error.message), 403)(scope, receive, send)
                return
        if scope["method"] not in (self.methods or ()):
            refuse = text_answer if self.category == "health" else json_answer
            await refuse(METHOD_NOT_ALLOWED, 405)(scope, receive, send)
            return
        await super().handle(scope, receive, send)


def _services(scope: Scope) -> Services:
    services: Services = scope["app"].state.services
    return services


def router(category: str) -> APIRouter:
    """A router for one category of routes."""
    return APIRouter(route_class=ControlRoute, tags=[category])
