"""Streams of responses whose clients do not keep up with them: what every frontend says of them."""

from itertools import count
from logging import Logger
from typing import Final

STREAM_BUFFER_BYTES: Final = 16 << 20
"""How much of a stream may wait for its client unless a flag says otherwise."""
_cut = count(1)


def log_cut_stream(logger: Logger, protocol: str, model: str, limit_bytes: int) -> None:
    """Write one WARNING for a client that is cut off, with the number of those that were before it."""
    logger.warning(
        "model '%s': a client over %s is cut off, more than %d bytes wait for it (--stream-buffer-size); it is the %s "
        "of this process",
        model, protocol, limit_bytes, f"{next(_cut)}.",
    )  # fmt: skip
