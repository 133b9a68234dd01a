"""What one client may ask of the server, in one place."""

import math
from dataclasses import dataclass
from typing import Final

from charonia_runtime.core.errors import InvalidArgumentError

LARGEST_WINDOW: Final = 2**31 - 1
"""The largest flow-control window that there is."""
LINGER_SECONDS: Final = 1.0
"""How long a client that is hung up on may go on sending, so that it can read why."""
CONTINUATION_FRAMES: Final = 64
"""CONTINUATION frames of one header block."""
BUFFERED_BYTES: Final = 1024 * 1024
"""Frames that wait for one socket; what is more stays with its streams."""


@dataclass(frozen=True, slots=True)
class Limits:
    """
    The limits of each connection. Times are seconds; 0 means none, except for intervals.

    Raises InvalidArgumentError for windows and frames that HTTP/2 does not have.

    The values of keep-alive are those that gRPC servers have where nothing is set. The budgets hold so many events at
    once and recover with time; honest work (answers, data) recovers them faster.
    """

    header_list_bytes: int = 16 * 1024
    """Names and values of one request, and 32 for each; a request over it is reset, four times over it hangs up."""
    concurrent_streams: int = 1000
    """Requests of one connection that are not fully answered; what is more is refused."""
    stream_window_bytes: int = 4 * 1024 * 1024
    """What a client may send on one stream before the handler has it."""
    connection_window_bytes: int = 64 * 1024 * 1024
    frame_bytes: int = 1024 * 1024
    """The largest DATA frame that a client may send; it is handed on as it arrives. At least 16384."""

    handshake_seconds: float = 20.0
    """From the connection to its preface and SETTINGS, from SETTINGS to their acknowledgement, for a frame's bytes."""
    stall_seconds: float = 600.0
    """How long a client may take nothing although something waits for it."""
    pause_seconds: float = 0.0
    """How long a request may pause before its end; receivers decide whether that is too long (`Receiver.paused`)."""
    idle_seconds: float = 0.0
    """How long a connection may be without a request; then its client is asked to go elsewhere."""
    unsent_bytes: int = 256 * 1024 * 1024
    """Answers that wait for one client; over it new requests are refused until it has taken some."""
    unsent_bytes_at_most: int = 512 * 1024 * 1024
    """Over it, answers to requests that were taken before are dropped as well: their streams are reset."""
    crowded_stall_seconds: float = 20.0
    """How long it may take nothing while so much waits for it."""
    keepalive_seconds: float = 7200.0
    """A connection that was silent this long is pinged."""
    keepalive_timeout_seconds: float = 20.0
    """A ping that was not answered this long ends the connection."""
    keepalive_without_calls: bool = False
    pings_without_data: int = 2
    """Pings that are sent with no answer in between; 0 is no limit."""
    ping_interval_seconds: float = 300.0
    """A client that pings more often than this, with no answer in between, gets a strike."""
    ping_strikes: int = 2
    """Strikes that are forgiven; 0 forgives all."""
    connection_age_seconds: float = 0.0
    """The client is asked to go elsewhere after about this time."""
    connection_age_grace_seconds: float = math.inf
    """It is hung up on so much later."""

    resets: int = 1000
    """Streams that end by a reset, whoever's fault it was, beyond those that are answered."""
    resets_per_second: float = 50.0
    chores: int = 10_000
    """Frames that carry nothing: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, empty DATA, unknown ones."""
    chores_per_second: float = 10_000.0

    def __post_init__(self) -> None:
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidArgumentError(f"{name} is {value}, expected {least} to {most}")


_RANGES: Final = (
    ("stream_window_bytes", 1, LARGEST_WINDOW),
    ("connection_window_bytes", 65_535, LARGEST_WINDOW),
    ("frame_bytes", 16_384, 2**24 - 1),
    ("header_list_bytes", 1, LARGEST_WINDOW),
    ("concurrent_streams", 1, LARGEST_WINDOW),
)
