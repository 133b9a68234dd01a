"""grpc's coroutines ⇄ our callbacks: `Bridge` finds the methods, a `BridgedCall` carries a call."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import unquote

import grpc
import grpc.aio
from typing_extensions import override

from charonia_runtime.frontends.v2_grpc.calls import Listener, Method, Methods, Parts
from charonia_runtime.frontends.v2_grpc.logged_call import CANCELLED
from charonia_runtime.frontends.v2_grpc.metadata import Metadata
from charonia_runtime.frontends.v2_grpc.status import OK, Status, StatusCode

logger = logging.getLogger(__name__)

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class Bridge(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc is untyped
    """Serves our methods through grpc, which neither parses messages nor makes any."""

    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._handlers: dict[str, grpc.RpcMethodHandler] = {}

    @override
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        path = handler_call_details.method
        handler = self._handlers.get(path)
        if handler is None:
            method = self._methods.find(path)
            if method is None:
                return grpc.stream_stream_rpc_method_handler(partial(self._refuse_unknown, path))
            handler = self._handlers[path] = _handler(method)
        return handler

    async def _refuse_unknown(self, path: str, _requests: object, context: grpc.aio.ServicerContext) -> None:
        self._methods.tell_unknown(path, Status(StatusCode.UNIMPLEMENTED), _address(context))
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def _address(context: grpc.aio.ServicerContext) -> str:
    """`host:port` of the client, which grpc writes as `ipv6:%5B::1%5D:1234`."""
    return unquote(context.peer().partition(":")[2])


def _handler(method: Method) -> grpc.RpcMethodHandler:
    async def unary(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        call = BridgedCall(context, method)
        listener = await call.open(method)
        if listener is not None:
            listener.message(data)
            await call.serve(listener, reads=False)
        return call.response

    async def stream(_requests: object, context: grpc.aio.ServicerContext) -> None:
        call = BridgedCall(context, method)
        listener = await call.open(method)
        if listener is not None:
            await call.serve(listener, reads=True)

    if method.is_unary:
        return grpc.unary_unary_rpc_method_handler(unary)
    return grpc.stream_stream_rpc_method_handler(stream)


class BridgedCall:
    """See `calls.Call`. What is sent waits here until grpc has written what came before."""

    def __init__(self, context: grpc.aio.ServicerContext, method: Method) -> None:
        self._method = method
        self.metadata = Metadata(context.invocation_metadata() or ())
        self.response = b""
        """The answer of a unary call."""
        self._context = context
        self._outgoing: deque[Parts | Callable[[], None]] = deque()
        """Messages, and who waits for those before them to be written."""
        self._wake = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._status: Status | None = None
        self._over = False

    @property
    def client(self) -> str:
        return _address(self._context)

    @property
    def is_open(self) -> bool:
        return self._status is None and not self._over

    def respond(self, parts: Parts) -> None:
        self.response = b"".join(parts)
        self.end()

    def send(self, parts: Parts) -> None:
        if self.is_open:
            self._outgoing.append(parts)
            self._wake.set()

    def end(self, status: Status = OK) -> None:
        if self._status is None:
            self._status = status
            self._wake.set()

    def drop(self) -> None:
        waiting = [item for item in self._outgoing if callable(item)]
        while len(self._outgoing) > 1:  # the first is being written
            self._outgoing.pop()
        self.end(Status(StatusCode.RESOURCE_EXHAUSTED, "the client does not read what was sent"))
        for resume in waiting[-1:]:
            resume()

    def when_ready(self, resume: Callable[[], None]) -> None:
        if self._over or not self._outgoing:
            resume()
        else:
            self._outgoing.append(resume)

    def hold(self) -> None:
        self._may_read.clear()

    def release(self) -> None:
        self._may_read.set()

    # --- grpc's side ---

    async def open(self, method: Method) -> Listener | None:
        """The call's listener; None when there is none and the call ended well."""
        if method.refusal is not None and (refused := method.refusal(self.metadata)):
            method.tell_refusal(refused, self.client)
            await self._abort(refused)
        listener = method.open(self)
        if listener is None and self._status is not None and self._status is not OK:
            await self._abort(self._status)
        return listener

    async def serve(self, listener: Listener, *, reads: bool) -> None:
        """Carry messages both ways until the call ended; tell the listener if its client went before."""
        reader = asyncio.create_task(self._read(listener)) if reads else None
        try:
            await self._write()
        except grpc.aio.InternalError:
            logger.debug("a client went away while it was written to")
        finally:
            self._over = True
            if reader is not None:
                reader.cancel()
            if self._status is None:
                self._count(StatusCode.CANCELLED)
                listener.aborted(CANCELLED)
            for waiting in self._outgoing:
                if callable(waiting):
                    waiting()

    async def _read(self, listener: Listener) -> None:
        try:
            while (data := await self._context.read()) is not grpc.aio.EOF:
                listener.message(data)
                await self._may_read.wait()
        except grpc.aio.InternalError:
            logger.debug("a client went away while it was read from")
        listener.half_closed()

    async def _write(self) -> None:
        outgoing = self._outgoing
        while True:
            while outgoing:
                first = outgoing[0]
                if callable(first):
                    outgoing.popleft()
                    first()
                else:
                    await self._context.write(b"".join(first))
                    outgoing.popleft()
            if self._status is not None:
                break
            self._wake.clear()
            await self._wake.wait()
        if self._status is not OK:
            await self._abort(self._status)
        self._count(self._status.code)

    def _count(self, code: StatusCode) -> None:
        self._method.answered[code.name] += 1

    async def _abort(self, status: Status) -> None:
        self._count(status.code)
        await self._context.abort(_CODES[status.code], status.text)
