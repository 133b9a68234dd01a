"""The seam above the engine: what `cli` needs of a frontend. A frontend is one module of `frontends/`."""

from dataclasses import field
from typing import Any, Protocol

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.server import InferenceServer


def option(
    default: Any,
    text: str,
    *,
    flag: str = "",
    metavar: str = "",
    aliases: tuple[str, ...] = (),
    switch: bool = False,
) -> Any:
    """
    A field of an options dataclass that is a command-line flag as well.

    The field's annotation decides how values are read: `bool`, `int`, `float`, `str`, or `tuple[str, ...]` for a flag
    that may be repeated. `text` is its help; `flag` its name where it is not the field's own with dashes; `metavar`
    the value's pattern in the help; `aliases` other names; `switch` marks a bool flag that takes no value.
    """
    return field(
        default=default,
        metadata={"text": text, "flag": flag, "metavar": metavar, "aliases": aliases, "switch": switch},
    )


class OptionError(InvalidArgumentError):
    """A flag's value is malformed. An options dataclass raises it in `__post_init__`; the usage names the flag."""

    def __init__(self, flag: str, message: str) -> None:
        super().__init__(message)
        self.flag = flag


class Frontend(Protocol):
    """
    One protocol on one listener. Constructed as `Frontend(options, server)`, with the module's own `Options`
    dataclass (frozen; each field made by `option`, one of them `enabled`).
    """

    name: str
    """What log lines and errors call the service: `HTTP`, `GRPC`, `metrics`."""
    address: str
    """`host:port` that it listens on, for the log and for conflicts between frontends."""

    async def start(self) -> None:
        """Bind and serve. Raises UnavailableError when the address is taken."""

    def retire(self) -> None:
        """Go on serving, and bring clients to take their next connection elsewhere: `stop` follows soon."""

    async def stop(self, timeout_seconds: float) -> None:
        """Accept nothing new, finish what is in flight within the time, then close every connection."""


class FrontendFactory(Protocol):
    """The class of a frontend, as `cli` calls it."""

    name: str

    def __call__(self, options: Any, server: InferenceServer) -> Frontend: ...


class FrontendModule(Protocol):
    """A module of `frontends/`."""

    Frontend: FrontendFactory
    Options: type
