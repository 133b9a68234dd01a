"""When a client has taken too long. Looked at every few seconds, so that a request costs nothing."""

from typing import Final

from charonia_runtime.wires.http1.limits import Limits

_LEAST_BYTES_PER_SECOND: Final = 500
"""A body that comes more slowly than this, on average after the read timeout, is a client that stalls."""


class StallWatch:
    """
    The clocks of one connection; the time is always an argument, in seconds.

    What is measured begins when it is first looked at: times are late by up to the time between two looks.
    """

    __slots__ = ("_limits", "_number", "_request_since", "_unsent_bytes", "_unsent_since")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._number = -1
        self._request_since = 0.0
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    def ends_writing(self, now: float, unsent_bytes: int) -> bool:
        """Return whether the client has taken nothing of the answer for too long."""
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since = unsent_bytes, now
            return False
        return bool(unsent_bytes) and now - self._unsent_since > self._limits.write_timeout_seconds

    def ends_reading(
        self, now: float, last_activity: float, number: int, received_bytes: int, *, is_in_head: bool
    ) -> bool:
        """
        Return whether a request that has begun takes too long.

        `number` tells requests of a connection apart; `received_bytes` is what came of the body. The limits are a pause
        since `last_activity`, the time for a whole head, and the average rate of a body.
        """
        limits = self._limits
        if now - last_activity > limits.read_timeout_seconds:
            return True
        if number != self._number:
            self._number, self._request_since = number, now
            return False
        taken = now - self._request_since
        if is_in_head:
            return taken > limits.head_timeout_seconds
        return taken > limits.read_timeout_seconds + received_bytes / _LEAST_BYTES_PER_SECOND

    def ends_idling(self, now: float, last_activity: float, *, has_served: bool) -> bool:
        """Return whether a connection without a request is closed: before its first one as a head that is late."""
        limits = self._limits
        limit = limits.idle_timeout_seconds if has_served else limits.read_timeout_seconds
        return now - last_activity > limit
