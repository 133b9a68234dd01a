"""When a connection has taken too long, and when it has lived long enough."""

import math
import random
from typing import Final

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault
from charonia_runtime.wires.http2.limits import Limits

_DRAIN_SECONDS: Final = 2.0
"""How long a client has to say that it read the first GOAWAY."""
_AGE_SPREAD: Final = 0.1
"""Ages differ by up to this share, so that clients that came together do not leave together."""


class Deadlines:
    """The clocks of one connection; the time is always an argument."""

    __slots__ = (
        "_drain_began_at", "_due_at", "_hang_up_at", "_idle_since", "_limits", "_opened_at", "_rest_since", "_sends",
        "_stalled_since",
    )  # fmt: skip

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._opened_at = now
        self._rest_since: float | None = None
        self._sends = 0
        self._stalled_since: float | None = None
        self._drain_began_at: float | None = None
        self._hang_up_at = math.inf
        self._due_at = math.inf
        self._idle_since: float | None = None
        if limits.connection_age_seconds:
            self._due_at = now + limits.connection_age_seconds * random.uniform(1 - _AGE_SPREAD, 1 + _AGE_SPREAD)  # noqa: S311

    # --- draining ---

    def is_due(self, now: float, *, is_idle: bool = False) -> bool:
        """Whether the connection is to be drained: it was idle for long, or is old, which is said once."""
        if not is_idle:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif self._limits.idle_seconds and now - self._idle_since > self._limits.idle_seconds:
            return True
        if now < self._due_at:
            return False
        self._due_at = math.inf
        self._hang_up_at = now + self._limits.connection_age_grace_seconds
        return True

    def begin_drain(self, now: float) -> bool:
        """Whether this is the first time that a drain is asked for."""
        if self._drain_began_at is not None:
            return False
        self._drain_began_at = now
        return True

    def is_drain_over(self, now: float) -> bool:
        """Whether the client has had its time to read that no new stream is wanted."""
        return self._drain_began_at is not None and now - self._drain_began_at > _DRAIN_SECONDS

    # --- taking too long ---

    def saw_rest(self, now: float, *, has_rest: bool) -> None:
        """Whether a frame or header block is incomplete after what was just read."""
        if not has_rest:
            self._rest_since = None
        elif self._rest_since is None:
            self._rest_since = now

    def saw_output(self, now: float, *, is_waiting: bool, sends: int) -> None:
        """Whether an answer waits for the client, and how many pieces of answers were ever sent."""
        if not is_waiting:
            self._stalled_since = None
        elif self._stalled_since is None or sends != self._sends:
            self._stalled_since = now
        self._sends = sends

    def missed(self, now: float, *, has_shaken_hands: bool, is_crowded: bool = False) -> ConnectionFault | None:
        """Why to hang up now. A connection is crowded when too much waits for its client."""
        limits = self._limits
        if limits.handshake_seconds:
            if not has_shaken_hands and now - self._opened_at > limits.handshake_seconds:
                return ConnectionFault(errors.SETTINGS_TIMEOUT, "no SETTINGS in time")
            if self._rest_since is not None and now - self._rest_since > limits.handshake_seconds:
                return ConnectionFault(errors.ENHANCE_YOUR_CALM, "a frame that is not completed")
        patience = limits.crowded_stall_seconds if is_crowded else limits.stall_seconds
        if patience and self._stalled_since is not None and now - self._stalled_since > patience:
            return ConnectionFault(errors.ENHANCE_YOUR_CALM, "answers that are not taken")
        if now > self._hang_up_at:
            return ConnectionFault(errors.NO_ERROR, "max_age")
        return None
