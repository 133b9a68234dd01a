"""Which handler answers which call, behind the checks that its category asks for."""

import asyncio
from typing import Any

import grpc

from charonia_runtime.core.access import HEADER, OPEN_CATEGORY, AccessTokens
from charonia_runtime.core.restrictions import Restriction
from charonia_runtime.frontends.v2_grpcio import metadata
from charonia_runtime.frontends.v2_grpcio.control import Call, ControlCalls
from charonia_runtime.frontends.v2_grpcio.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpcio.options import Options
from charonia_runtime.frontends.v2_grpcio.status import Context, Handler, guarded, refuse_access

_SERVICE = "/inference.GRPCInferenceService"
_INFERENCE = "inference"


class Router(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc is untyped
    """Finds handlers by path. Handlers take and give bytes: parsing is theirs, and so are its errors."""

    def __init__(self, control: ControlCalls, inference: InferenceCalls, options: Options) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler] = {
            path: grpc.unary_unary_rpc_method_handler(
                _guarded(_call(call, options.response_delay_seconds), category, options)
            )
            for path, (category, call) in control.table().items()
        }
        infer = _guarded(inference.model_infer, _INFERENCE, options)
        stream = _guarded(inference.model_stream_infer, _INFERENCE, options)
        self._handlers[f"{_SERVICE}/ModelInfer"] = grpc.unary_unary_rpc_method_handler(infer)
        self._handlers[f"{_SERVICE}/ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(stream)
        self._unknown = grpc.stream_stream_rpc_method_handler(_refuse_unknown)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return self._handlers.get(handler_call_details.method, self._unknown)


async def _refuse_unknown(_requests: object, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def _call(call: Call, delay_seconds: float) -> Handler:
    async def handle(data: bytes, _context: Context) -> bytes:
        answer = await call(data)
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        return answer

    return handle


def _guarded(handler: Handler, category: str, options: Options) -> Handler:
    """The handler behind what its category asks for: a token first, then the header of a restriction."""
    tokens = options.access_tokens if category != OPEN_CATEGORY else None
    return guarded(_with_access(_checked(handler, options.restrictions().get(category)), tokens))


def _with_access(handler: Handler, tokens: AccessTokens | None) -> Handler:
    if tokens is None:
        return handler

    async def handle(requests: Any, context: Context) -> Any:
        shown = metadata.find(context, HEADER)
        refusal = tokens.refusal(None if shown is None else shown.encode())
        if refusal:
            await refuse_access(context, refusal)
        return await handler(requests, context)

    return handle


def _checked(handler: Handler, restriction: Restriction | None) -> Handler:
    if restriction is None:
        return handler

    async def handle(requests: Any, context: Context) -> Any:
        restriction.check(metadata.find(context, restriction.header))
        return await handler(requests, context)

    return handle
