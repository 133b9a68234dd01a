"""Whether the other end is still there, and whether it asks too often: gRPC's rules for pings, both ways."""

import math
from enum import Enum, auto

from charonia_runtime.wires.http2.limits import Limits


class Verdict(Enum):
    """What is to be done now."""

    WAIT = auto()
    PING = auto()
    HANG_UP = auto()


class Keepalive:
    """
    The pings of one connection.

    A ping of the client is a strike when it comes sooner than it should after the one before and no answer was sent in
    between (where no request is under way and that is not permitted: sooner than two hours). The rules are those of
    gRPC's C core, which has the flags that Triton passes on.
    """

    __slots__ = ("_last_ping", "_limits", "_pings_unheard", "_sends", "_strikes", "awaited_since", "last_received")

    _IDLE_INTERVAL_SECONDS = 7200.0

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self.last_received = now
        self.awaited_since: float | None = None
        self._pings_unheard = 0
        self._last_ping = -math.inf
        self._strikes = 0
        self._sends = 0

    def is_excessive(self, now: float, sends: int, *, has_calls: bool) -> bool:
        """Whether a ping that the client sent is one too many. `sends` grows with each piece of an answer."""
        self._forgive(sends)
        limits = self._limits
        interval = limits.ping_interval_seconds
        if not has_calls and not limits.keepalive_without_calls:
            interval = self._IDLE_INTERVAL_SECONDS
        is_early = now < self._last_ping + interval
        self._last_ping = now
        if is_early:
            self._strikes += 1
        return self._strikes > limits.ping_strikes > 0

    def check(self, now: float, sends: int, *, has_calls: bool) -> Verdict:
        """What the time asks for. `sends` grows with each piece of an answer."""
        self._forgive(sends)
        limits = self._limits
        if self.awaited_since is not None:
            if self.last_received >= self.awaited_since:
                self.awaited_since = None
            elif now - self.awaited_since > limits.keepalive_timeout_seconds:
                return Verdict.HANG_UP
            return Verdict.WAIT
        if not limits.keepalive_seconds or not (has_calls or limits.keepalive_without_calls):
            return Verdict.WAIT
        if now - self.last_received < limits.keepalive_seconds:
            return Verdict.WAIT
        if limits.pings_without_data and self._pings_unheard >= limits.pings_without_data:
            return Verdict.WAIT
        self._pings_unheard += 1
        self.awaited_since = now
        return Verdict.PING

    def _forgive(self, sends: int) -> None:
        """Where something of an answer was sent in between, neither side's pings are without sense."""
        if sends != self._sends:
            self._sends = sends
            self._pings_unheard = 0
            self._last_ping = -math.inf
            self._strikes = 0
