"""
Wires: a started frontend with a client of its protocol, so that one contract suite runs over all of them.

A wire gives the classes of its `tritonclient` module (`module`), a connected client (`client`), and says what that
client calls an error (`status`). To add one: a function that starts it, and its name in `WIRES`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import grpc
import tritonclient.grpc.aio
import tritonclient.http.aio

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.errors import ErrorCode
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends import v2_grpc, v2_http
from charonia_runtime.frontends.v2_grpc.transports import transport_names


@dataclass
class Wire:
    """One protocol, connected to a server."""

    name: str
    module: ModuleType
    client: Any
    statuses: dict[ErrorCode, str]
    """What `InferenceServerException.status()` says for each code."""
    unauthenticated: str
    """What it says to a client that shows no valid access token."""

    def input(self, name: str, array: Any, datatype: str) -> Any:
        """An input that carries `array`."""
        tensor = self.module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array)
        return tensor


@asynccontextmanager
async def http(server: InferenceServer, access_tokens: AccessTokens | None = None) -> AsyncIterator[Wire]:
    options = v2_http.Options(http_address="127.0.0.1", http_port=0, access_tokens=access_tokens)
    frontend = v2_http.Frontend(options, server)
    await frontend.start()
    try:
        async with tritonclient.http.aio.InferenceServerClient(frontend.address) as client:
            statuses = {
                ErrorCode.UNKNOWN: "400", ErrorCode.INTERNAL: "500", ErrorCode.NOT_FOUND: "404",
                ErrorCode.INVALID_ARGUMENT: "400", ErrorCode.UNAVAILABLE: "503", ErrorCode.UNSUPPORTED: "501",
                ErrorCode.ALREADY_EXISTS: "400", ErrorCode.CANCELLED: "400",
            }  # fmt: skip
            yield Wire("http", tritonclient.http.aio, client, statuses, "401")
    finally:
        await frontend.stop(1)


@asynccontextmanager
async def grpc_over(
    transport: str, server: InferenceServer, access_tokens: AccessTokens | None = None
) -> AsyncIterator[Wire]:
    options = v2_grpc.Options(
        grpc_address="127.0.0.1", grpc_port=0, grpc_transport=transport, access_tokens=access_tokens
    )
    frontend = v2_grpc.Frontend(options, server)
    await frontend.start()
    try:
        async with tritonclient.grpc.aio.InferenceServerClient(frontend.address) as client:
            statuses = {
                code: str(grpc.StatusCode[code.name]) for code in ErrorCode if code is not ErrorCode.UNSUPPORTED
            }
            statuses[ErrorCode.UNSUPPORTED] = str(grpc.StatusCode.UNIMPLEMENTED)
            unauthenticated = str(grpc.StatusCode.UNAUTHENTICATED)
            yield Wire("grpc", tritonclient.grpc.aio, client, statuses, unauthenticated)
    finally:
        await frontend.stop(1)


WIRES: dict[str, Callable[..., AbstractAsyncContextManager[Wire]]] = {
    "http": http,
    **{f"grpc-{transport}": partial(grpc_over, transport) for transport in transport_names()},
}
