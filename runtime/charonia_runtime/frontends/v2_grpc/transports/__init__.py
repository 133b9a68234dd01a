"""
How calls travel: one module (or package) for each implementation of gRPC's wire, chosen by `--grpc-transport`.

Each has a class `Transport`; `load_transport` finds it by its name. A transport turns what a client sends into the
callbacks of `v2_grpc.calls`, and knows nothing of what the calls do; the calls know nothing of it. Transports do not
know each other. The frontends' contract suite and this frontend's own tests run over all of them.
"""

import pkgutil
from importlib import import_module
from typing import Any, Protocol, cast

from charonia_runtime.frontends.v2_grpc.calls import Methods
from charonia_runtime.frontends.v2_grpc.options import Options


class Transport(Protocol):
    """A listener and its connections."""

    async def start(self) -> str:
        """
        Bind and serve; the address that it listens on.

        Raises UnavailableError when the address is taken, InvalidArgumentError when a file for TLS cannot be used.
        """

    def retire(self) -> None:
        """Go on serving, and bring clients to take their next connection elsewhere, where the transport can."""

    async def stop(self, timeout_seconds: float) -> None:
        """Accept nothing new, let calls end and answers leave within the time, then close every connection."""


class TransportFactory(Protocol):
    """The class of a transport."""

    def __call__(self, options: Options, methods: Methods) -> Transport: ...


def load_transport(name: str) -> TransportFactory:
    """The transport called `name`, one of `transport_names()`."""
    module: Any = import_module(f"{__name__}.{name}")
    return cast("TransportFactory", module.Transport)


def transport_names() -> list[str]:
    """Every transport that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
