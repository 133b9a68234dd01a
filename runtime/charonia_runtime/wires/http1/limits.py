"""What one client may ask of the server, in one place."""

from dataclasses import dataclass
from typing import Final

MAXIMUM_HEAD_BYTES: Final = 64 * 1024
"""Request line and headers together."""
MAXIMUM_CHUNKS: Final = 65536
"""Non-empty chunks of one body."""
LINGER_SECONDS: Final = 2.0
"""How long a client that is refused in the middle of its body may go on sending, so that it can read the refusal."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that are flags. `read_timeout_seconds` 0 means none."""

    body_bytes: int
    read_timeout_seconds: float
