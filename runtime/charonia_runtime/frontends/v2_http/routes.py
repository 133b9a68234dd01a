"""Which exchange answers a request: inference here, everything else by the ASGI application of the control routes."""

import asyncio
import re
import time
from typing import Any, Final

from charonia_runtime.core.access import HEADER
from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.frontends.v2_http.answers import (
    CHALLENGE,
    JSON,
    METHOD_NOT_ALLOWED,
    TEXT,
    refusal_answer,
)
from charonia_runtime.frontends.v2_http.asgi import Application, AsgiExchange
from charonia_runtime.frontends.v2_http.generate import GenerateExchange
from charonia_runtime.frontends.v2_http.infer import InferExchange
from charonia_runtime.frontends.v2_http.logged_connection import AnsweringConnection, LoggedConnection
from charonia_runtime.frontends.v2_http.services import Services
from charonia_runtime.protocols.v2_documents import read_error, render_error
from charonia_runtime.wires.http1.connection import Connection
from charonia_runtime.wires.http1.messages import RefusedRequestError, Request
from charonia_runtime.wires.short_texts import remembering_short

_INFERENCE: Final = r"/v2/models/([^/]+)(?:/versions/([0-9]+))?/(infer|generate|generate_stream)"
_ACCESS: Final = HEADER.encode()


class Routes:
    """The handler of all connections (`wires.http1.connection.Handler`)."""

    def __init__(self, services: Services, control: Application) -> None:
        self._services = services
        self._control = control
        self.tasks = set[asyncio.Task[None]]()
        self.answered = services.server.answers.of("http")
        self._inference = remembering_short(re.compile(services.prefixes.pattern + _INFERENCE).fullmatch)
        self._request_log = services.request_log
        self._access_tokens = services.access_tokens
        self._restriction = services.restrictions.get("inference")

    def begin(self, connection: AnsweringConnection, request: Request) -> None:
        if self._request_log.active:
            connection = LoggedConnection(connection, request, self._request_log)
        match = self._inference(request.path)
        if match is None:
            request.path = self._services.prefixes.without(request.path)
            AsgiExchange(connection, request).begin(self._control, self.tasks)
            return
        model, version, verb = match.groups()
        if self._access_tokens is not None:
            refusal = self._access_tokens.refusal(request.head.fields.get(_ACCESS))
            if refusal:
                connection.answer(401, JSON + CHALLENGE, [render_error(refusal)])
                return
        if self._restriction is not None:
            try:
                self._restriction.check(request.head.field_text(self._restriction.header))
            except UnavailableError as error:
                connection.answer(403, TEXT, [render_error(error.message)])
                return
        if request.head.method != b"POST":
            connection.answer(405, TEXT if verb == "infer" else JSON, [METHOD_NOT_ALLOWED])
            return
        exchange: Any
        if verb == "infer":
            exchange = InferExchange(self._services, connection, request, model)
        else:
            streams = verb == "generate_stream"
            exchange = GenerateExchange(self._services, connection, request, model, streams=streams)
        connection.exchange = exchange
        exchange.begin(version or "")

    def refuse(self, connection: Connection, refusal: RefusedRequestError) -> tuple[int, bytes, bytes]:
        status, body = refusal_answer(refusal)
        if self._request_log.active:
            began_ns = time.monotonic_ns()
            self._request_log.write(
                "HTTP", "-", status, began_ns, sent=len(body), client=connection.client, error=read_error(body)
            )
        return status, JSON, body
