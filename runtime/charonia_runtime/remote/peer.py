"""`Peer`: serves one process of frontends on top of any server; `Peers`: what they have to tell each other."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, Trace
from charonia_runtime.core.server import MirroredServer
from charonia_runtime.ipc.frames import Frame
from charonia_runtime.ipc.messages import MessageReader
from charonia_runtime.remote.calls import CHANGE_MODELS, CHANGE_SETTINGS, METHODS
from charonia_runtime.remote.documents import write_error
from charonia_runtime.remote.flow import RemoteFlow
from charonia_runtime.remote.frames import Kind
from charonia_runtime.remote.link import Link, document_of
from charonia_runtime.remote.messages import RequestReader, add_response
from charonia_runtime.remote.mirror import write_versions

logger = logging.getLogger(__name__)

_SUBMIT: Final = int(Kind.SUBMIT)
_MIRROR_SECONDS: Final = 1.0
"""How long a change of the models waits for processes that are busy, before its caller hears of it nevertheless."""


class Peers:
    """The processes that one server has."""

    def __init__(self) -> None:
        self._peers: set[Peer] = set()

    def join(self, peer: "Peer") -> None:
        self._peers.add(peer)

    def leave(self, peer: "Peer") -> None:
        self._peers.discard(peer)

    async def tell_settings(self) -> None:
        """The settings that processes follow have changed."""
        for peer in list(self._peers):
            await peer.tell_settings()

    async def wait_mirrored(self) -> None:
        """Wait until every process knows the models as they are now."""
        waits = [peer.mirrored() for peer in self._peers]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waits), _MIRROR_SECONDS)


class _Exchange:
    """The sink of one request."""

    __slots__ = ("_number", "_peer", "_request_id", "flow", "request")

    def __init__(self, peer: "Peer", number: int) -> None:
        self._peer = peer
        self._number = number
        self._request_id = ""
        self.request: InferenceRequest | None = None
        self.flow: RemoteFlow | None = None

    def begin(self, request: InferenceRequest, *, is_held_back: bool) -> None:
        self.request = request
        self._request_id = request.id
        if is_held_back:
            self.flow = request.flow = RemoteFlow()

    def send(self, response: InferenceResponse) -> None:
        if response.final:
            # The request knows its sink: a cycle would keep its tensors until the garbage collector's next round.
            self.request = None
            self._peer.forget(self._number)
        elif self.flow is not None:
            self.flow.sent(sum(tensor.byte_size for tensor in response.outputs))
        self._peer.respond(self._number, self._request_id, response)


class Peer:
    """
    The server's end of one link. Used on the running event loop.

    `noticed` is told what the process says to the server's owner, `closed` that it is gone; then its requests have
    been cancelled.
    """

    def __init__(
        self,
        server: MirroredServer,
        sock: socket.socket,
        segment: int,
        peers: Peers,
        *,
        noticed: Callable[[Mapping[str, Any]], None] | None = None,
        closed: Callable[[], None] | None = None,
    ) -> None:
        self._server = server
        self._peers = peers
        self._noticed = noticed
        self._closed = closed
        self._link = Link(sock, segment, self._received, self._lost, near=True)
        self._requests = RequestReader(self._link.layouts, self._link.segments)
        self._messages = MessageReader(self._link.layouts)
        self._exchanges: dict[int, _Exchange] = {}
        self._traces: dict[int, Trace] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._states = 0
        """How many changes were told, and how many of them were heard."""
        self._mirrored = 0
        self._heard = asyncio.Event()
        self._stop_watching = server.watch_models(self._tell_model)

    async def start(self) -> None:
        """Tell the process all that it has to keep in mind."""
        models = {name: self._versions(name) for name in self._server.model_names()}
        self._tell_state({"models": models, **await self._settings()})
        self._peers.join(self)

    def notice(self, document: Mapping[str, Any]) -> None:
        """Tell the process's owner something."""
        self._link.say(Kind.NOTICE, document)

    def close(self) -> None:
        """Leave the process, and cancel what it waits for."""
        if not self._link.closed:
            self._link.close()
            self._abandon()

    async def tell_settings(self) -> None:
        """Tell the process those settings that it follows."""
        self._tell_state(await self._settings())

    async def mirrored(self) -> None:
        """Wait until the process has heard of all changes up to now, or is gone."""
        wanted = self._states
        while self._mirrored < wanted and not self._link.closed:
            self._heard.clear()
            await self._heard.wait()

    # --- what exchanges ask ---

    def forget(self, number: int) -> None:
        self._exchanges.pop(number, None)

    def respond(self, number: int, request_id: str, response: InferenceResponse) -> None:
        """Send a response. One that cannot be sent becomes an error."""
        if self._link.closed:
            return
        packer = self._link.packer()
        try:
            flags = add_response(packer, response, request_id)
        except Exception as error:
            packer.undo()
            if not isinstance(error, InferenceError):
                logger.exception("unexpected error while a response of model '%s' was sent", response.model_name)
                error = InternalError("unexpected error while the response was sent")
            packer = self._link.packer()
            failure = InferenceResponse(
                response.model_name, response.model_version, response.id, error=error, final=response.final
            )
            flags = add_response(packer, failure, request_id)
        self._link.post(Kind.RESPONSE, packer, flags=flags, number=number)

    # --- frames ---

    def _received(self, frame: Frame) -> None:
        kind, number = frame.kind, frame.number
        if kind == _SUBMIT:
            self._submit(frame)
        elif kind == Kind.ROOM:
            exchange = self._exchanges.get(number)
            if exchange is not None and exchange.flow is not None:
                exchange.flow.taken()
        elif kind == Kind.CANCEL:
            exchange = self._exchanges.get(number)
            if exchange is not None and exchange.request is not None:
                self._server.cancel(exchange.request)
        elif kind == Kind.CALL:
            self._call(frame)
        elif kind == Kind.TRACED:
            self._end_trace(number, document_of(frame)["notes"])
        elif kind == Kind.MIRRORED:
            self._mirrored = number
            self._heard.set()
        elif kind == Kind.NOTICE and self._noticed is not None:
            self._noticed(document_of(frame))

    def _submit(self, frame: Frame) -> None:
        number = frame.number
        exchange = self._exchanges[number] = _Exchange(self, number)
        request, is_held_back, trace = self._requests.read(frame, exchange)
        exchange.begin(request, is_held_back=is_held_back)
        try:
            if trace is not None:
                self._begin_trace(number, request, trace)
            self._server.submit(request)
        except InferenceError as error:
            self._refuse(exchange, request, error)
        except Exception:
            logger.exception("unexpected error while a request to model '%s' was submitted", request.model_name)
            self._refuse(exchange, request, InternalError("unexpected error while reading the request"))

    def _refuse(self, exchange: _Exchange, request: InferenceRequest, error: InferenceError) -> None:
        exchange.send(
            InferenceResponse(request.model_name, request.model_version, request.id, error=error, refused=True)
        )

    def _begin_trace(self, number: int, request: InferenceRequest, begun: Mapping[str, Any]) -> None:
        tracing = self._server.tracing
        trace = tracing.sample(request.model_name, begun["parent"]) if tracing.active else None
        if trace is not None:
            self._traces[number] = request.trace = trace
            for name, ns in begun["notes"]:
                trace.note(name, ns)

    def _end_trace(self, number: int, notes: list[tuple[str, int]]) -> None:
        trace = self._traces.pop(number, None)
        if trace is not None:
            for name, ns in notes:
                trace.note(name, ns)
            trace.end()

    # --- calls ---

    def _call(self, frame: Frame) -> None:
        record = self._messages.request(frame, self._link.segments.borrow)
        method, arguments = record.rest["method"], record.rest["arguments"]
        task = asyncio.get_running_loop().create_task(self._answer(frame.number, method, arguments, record.inputs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, method: str, arguments: Mapping[str, Any], files: list[Any]) -> None:
        try:
            result = await METHODS[method](self._server, arguments, files)
        except InferenceError as error:
            answer = write_error(error)
        except Exception:
            logger.exception("unexpected error while '%s' was answered", method)
            answer = write_error(InternalError("unexpected error while answering the request"))
        else:
            answer = {"result": result}
        if method in CHANGE_SETTINGS:
            await self._peers.tell_settings()
        if method in CHANGE_MODELS:
            await self._peers.wait_mirrored()
        if not self._link.closed:
            self._link.say(Kind.RESULT, answer, number=number)

    # --- state ---

    async def _settings(self) -> dict[str, Any]:
        return {"log": await self._server.settings.log(), "tracing": self._server.tracing.active}

    def _tell_model(self, name: str) -> None:
        self._tell_state({"models": {name: self._versions(name)}})

    def _versions(self, name: str) -> dict[str, Any] | None:
        try:
            return write_versions(self._server.served_versions(name))
        except InferenceError as error:
            return write_error(error)

    def _tell_state(self, state: Mapping[str, Any]) -> None:
        if not self._link.closed:
            self._states += 1
            self._link.say(Kind.STATE, state, number=self._states)

    # --- the end ---

    def _lost(self) -> None:
        self._abandon()
        if self._closed is not None:
            self._closed()

    def _abandon(self) -> None:
        self._stop_watching()
        self._peers.leave(self)
        self._heard.set()
        exchanges = list(self._exchanges.values())
        for exchange in exchanges:
            if exchange.flow is not None:
                exchange.flow.close()
            if exchange.request is not None:
                self._server.cancel(exchange.request)
        for number in list(self._traces):
            self._end_trace(number, [])
