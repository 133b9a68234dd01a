"""What clients send beside their messages."""

from collections.abc import Iterator

from charonia_runtime.frontends.v2_grpcio.status import Context


def pairs(context: Context) -> Iterator[tuple[str, str]]:
    """Keys, in lower case, and values in the order they came; binary values as the text they may be."""
    for key, value in context.invocation_metadata() or ():
        yield key, value.decode(errors="replace") if isinstance(value, bytes) else value


def find(context: Context, key: str) -> str | None:
    """The first value of `key`, whatever the key's case; None when there is none."""
    wanted = key.lower()
    return next((value for name, value in pairs(context) if name == wanted), None)
