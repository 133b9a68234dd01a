"""Frames that carry no request: SETTINGS, PING, WINDOW_UPDATE, PRIORITY, GOAWAY."""

from typing import Final, Protocol

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.block_assembly import check_dependency
from charonia_runtime.wires.http2.errors import ConnectionFault, StreamFault
from charonia_runtime.wires.http2.frames import (
    ACK,
    ENABLE_PUSH,
    GOAWAY,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PING,
    PRIORITY,
    SETTING,
    SETTINGS,
    SETTINGS_ACK,
    SMALLEST_FRAME_LIMIT,
    STREAM_MASK,
    WINDOW_UPDATE,
    ping,
    settings,
    window_update,
)
from charonia_runtime.wires.http2.keepalive import Keepalive
from charonia_runtime.wires.http2.limits import LARGEST_WINDOW, Limits
from charonia_runtime.wires.http2.outbox import Outbox
from charonia_runtime.wires.http2.stream import Stream

_DEFAULT_TABLE_BYTES: Final = 4096
_INITIAL_CONNECTION_WINDOW: Final = 65535
_LARGEST_FRAME_LIMIT: Final = 2**24 - 1
_MAXIMUM_SETTINGS: Final = 32
"""Settings in one frame; eight are defined."""
DRAIN_PING: Final = b"charonia"
"""The ping that asks whether the client has read that no new stream is wanted."""
KEEPALIVE_PING: Final = b"alive?\0\0"


class Streams(Protocol):
    """What control frames are about: the connection."""

    now: float
    streams: dict[int, Stream]
    last_stream_id: int

    def kill(self, stream: Stream, code: int) -> None:
        """Reset a stream for its client's fault."""

    def drained(self) -> None:
        """The client has read that no new stream is wanted."""


class ControlFrames:
    """Obeys the client's control frames, and introduces the server."""

    def __init__(self, streams: Streams, outbox: Outbox, keepalive: Keepalive, limits: Limits) -> None:
        self._connection = streams
        self._outbox = outbox
        self._keepalive = keepalive
        self.has_settings = False
        self.is_acknowledged = False
        outbox.control(settings((
            (MAX_CONCURRENT_STREAMS, limits.concurrent_streams),
            (INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
            (MAX_FRAME_SIZE, limits.frame_bytes),
            (MAX_HEADER_LIST_SIZE, limits.header_list_bytes),
        )))  # fmt: skip
        extra_window = limits.connection_window_bytes - _INITIAL_CONNECTION_WINDOW
        if extra_window:
            outbox.control(window_update(0, extra_window))
        self._kinds = {
            SETTINGS: self._settings,
            PING: self._ping,
            WINDOW_UPDATE: self._window_update,
            PRIORITY: self._priority,
            GOAWAY: self._goaway,
        }

    def take(self, kind: int, flags: int, stream_id: int, payload: memoryview) -> None:
        """Obey a frame, ignore it if its kind is unknown. Raises ConnectionFault."""
        obey = self._kinds.get(kind)
        if obey is not None:
            obey(flags, stream_id, payload)

    def _settings(self, flags: int, stream_id: int, payload: memoryview) -> None:
        if stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % SETTING.size or (flags & ACK and len(payload)):
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
        if len(payload) > _MAXIMUM_SETTINGS * SETTING.size:
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "more SETTINGS than there are")
        if flags & ACK:
            self.is_acknowledged = True
            return
        self.has_settings = True
        for name, value in SETTING.iter_unpack(payload):
            self._apply(name, value)
        self._outbox.control(SETTINGS_ACK)

    def _apply(self, name: int, value: int) -> None:
        if name == INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise ConnectionFault(errors.FLOW_CONTROL_ERROR, "a window larger than there is")
            self._outbox.change_initial_window(value, self._connection.streams.values())
        elif name == MAX_FRAME_SIZE:
            if not SMALLEST_FRAME_LIMIT <= value <= _LARGEST_FRAME_LIMIT:
                raise ConnectionFault(errors.PROTOCOL_ERROR, "MAX_FRAME_SIZE out of its range")
            self._outbox.change_frame_limit(value)
        elif name == ENABLE_PUSH:
            if value > 1:
                raise ConnectionFault(errors.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
        elif name == HEADER_TABLE_SIZE and value < _DEFAULT_TABLE_BYTES:
            self._outbox.shrink_table()

    def _ping(self, flags: int, stream_id: int, payload: memoryview) -> None:
        if stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "PING of a wrong size")
        if flags & ACK:
            if payload.tobytes() == DRAIN_PING:
                self._connection.drained()
            return
        now, sends = self._connection.now, self._outbox.sends
        if self._keepalive.is_excessive(now, sends, has_calls=bool(self._connection.streams)):
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "too_many_pings")
        self._outbox.control(ping(payload.tobytes(), ack=True))

    def _window_update(self, _: int, stream_id: int, payload: memoryview) -> None:
        if len(payload) != 4:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "WINDOW_UPDATE of a wrong size")
        increment = int.from_bytes(payload) & STREAM_MASK
        if not stream_id:
            if not increment:
                raise ConnectionFault(errors.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            self._outbox.widen(increment)
            return
        stream = self._connection.streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
        elif not increment:
            self._connection.kill(stream, errors.PROTOCOL_ERROR)
        else:
            try:
                self._outbox.widen_stream(stream, increment)
            except StreamFault as fault:
                self._connection.kill(stream, fault.code)

    def _priority(self, _: int, stream_id: int, payload: memoryview) -> None:
        if not stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "PRIORITY of no stream")
        if len(payload) != 5:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "PRIORITY of a wrong size")
        check_dependency(stream_id, payload)

    def _goaway(self, _: int, stream_id: int, payload: memoryview) -> None:
        if stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "GOAWAY of a wrong size")

    def _check_known(self, stream_id: int) -> None:
        if stream_id > self._connection.last_stream_id or not stream_id & 1:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "a frame for a stream that was never opened")
