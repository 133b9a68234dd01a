"""What one client may ask of the server, in one place."""

import math
from dataclasses import dataclass
from typing import Final

MAXIMUM_HEAD_BYTES: Final = 64 * 1024
"""Request line and headers together."""
MAXIMUM_CHUNKS: Final = 65536
"""Non-empty chunks of one body."""
LINGER_SECONDS: Final = 2.0
"""How long a client that is refused in the middle of its body may go on sending, so that it can read the refusal."""


HALF_CLOSED_LOOK_SECONDS: Final = 0.5
"""How often a client that sends no more is asked whether it still reads."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that are flags. Times are seconds; infinity means none."""

    body_bytes: int
    read_timeout_seconds: float = math.inf
    """How long a client may pause in the middle of a request, or before its first one."""
    head_timeout_seconds: float = math.inf
    """How long the request line and the headers may take together."""
    idle_timeout_seconds: float = math.inf
    """How long a connection may wait for its next request."""
    write_timeout_seconds: float = math.inf
    """How long a client may take nothing of an answer."""
    uses_last_descriptors: bool = False
    """Whether connections are taken while the process has hardly a descriptor left."""
    farewell_seconds: float = 1.0
    """How long idle connections are served once more when the listener stops: a request may be on its way."""
