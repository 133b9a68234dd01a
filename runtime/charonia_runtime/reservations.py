"""Addresses that are kept for frontends that other processes start."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from charonia_runtime.frontends import load_frontend
from charonia_runtime.wires.addresses import join, reserve

_FLAGS: Final = {"v2_http": "http", "v2_grpc": "grpc"}
"""The word in the flags for its address."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An address that nobody else gets while this is there. `name` is the service's."""

    name: str
    address: str
    arguments: Sequence[str]
    """Flags that make several processes listen on it."""
    bound: socket.socket

    @classmethod
    def of(cls, module: str, options: Any) -> "Reservation":
        """
        The address in the options of a frontend.

        Raises UnavailableError when it is taken, InvalidArgumentError when it makes no sense.
        """
        word = _FLAGS[module]
        host, port, shares = (
            getattr(options, name.format(word)) for name in ("{}_address", "{}_port", "reuse_{}_port")
        )
        bound = reserve(host, port, share_port=shares)
        number = bound.getsockname()[1]
        return cls(
            load_frontend(module).Frontend.name,
            join(host, number),
            (f"--{word}-port={number}", f"--reuse-{word}-port=true"),
            bound,
        )

    def close(self) -> None:
        self.bound.close()
