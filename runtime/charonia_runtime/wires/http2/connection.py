"""One client connection, sans-I/O: bytes and the time in, frames and calls of the handler out."""

from collections.abc import Callable
from typing import Final

from charonia_runtime.wires.http2 import errors, frames
from charonia_runtime.wires.http2.block_assembly import BlockAssembly
from charonia_runtime.wires.http2.budgets import Budget
from charonia_runtime.wires.http2.control import DRAIN_PING, KEEPALIVE_PING, ControlFrames
from charonia_runtime.wires.http2.deadlines import Deadlines
from charonia_runtime.wires.http2.errors import ConnectionFault, StreamFault
from charonia_runtime.wires.http2.frame_reader import FrameReader
from charonia_runtime.wires.http2.header_blocks import HARD_LIMIT_FACTOR, BlockDecoder
from charonia_runtime.wires.http2.keepalive import Keepalive, Verdict
from charonia_runtime.wires.http2.limits import BUFFERED_BYTES, Limits
from charonia_runtime.wires.http2.outbox import Outbox
from charonia_runtime.wires.http2.stream import Handler, Stream

_REMEMBERED_RESETS: Final = 1024
"""Streams that we ended early: what is still on its way for them is no fault of the client."""
_ANSWER_WORTH_RESETS: Final = 1
_FRAME_WORTH_CHORES: Final = 8
"""What an answer and each of its frames pay for: clients tell for each frame that they have taken it, often twice."""
_SETTINGS_CHORES: Final = 10
"""SETTINGS cost this much, and one for each stream, since they may change all windows."""
_LONG_LIFE_SECONDS: Final = 1.0
"""Whoever resets streams after this time can only do it as often as streams may be open at once."""


class Connection:
    """
    The streams of one client.

    `receive` takes bytes, `tick` the time; what is to be written is in `outbox`. Once `is_closed`, the transport is
    closed after the last frames: at once, or lingering so that the client can read why it `is_dismissed`.
    """

    def __init__(self, handler: Handler, limits: Limits, now: float, wake: Callable[[], None]) -> None:
        self._handler = handler
        self._limits = limits
        self.now = now
        self.outbox = Outbox(wake, self._sent, self._drop, limits.unsent_bytes_at_most)
        self.streams: dict[int, Stream] = {}
        self.last_stream_id = 0
        self.client = ""
        """The address of the client, once the transport knows it."""
        self.is_closed = False
        self.is_dismissed = False
        self._keepalive = Keepalive(limits, now)
        self._control = ControlFrames(self, self.outbox, self._keepalive, limits)
        self._decoder = BlockDecoder(limits.header_list_bytes)
        self._blocks = BlockAssembly(limits.header_list_bytes * HARD_LIMIT_FACTOR)
        self._reader = FrameReader(self, limits)
        self._answered = 0
        self._resets = Budget(limits.resets, limits.resets_per_second, _ANSWER_WORTH_RESETS, now)
        self._chores = Budget(limits.chores, limits.chores_per_second, _FRAME_WORTH_CHORES, now)
        self._own_resets: dict[int, None] = {}
        self._received = 0
        self._half_window = limits.connection_window_bytes // 2
        self._low_window = limits.stream_window_bytes // 2
        self._deadlines = Deadlines(limits, now)
        self._pauses: dict[int, tuple[int, float]] = {}
        """Streams whose end has not come: their windows, and since when these are as they are."""
        self._final_stream_id: int | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the client has said that it speaks HTTP/2."""
        return self._control.has_settings

    @property
    def has_shaken_hands(self) -> bool:
        """Whether both sides know each other's SETTINGS."""
        return self._control.has_settings and self._control.is_acknowledged

    @property
    def _is_crowded(self) -> bool:
        """Whether more waits for the client than it may let wait."""
        return self.outbox.queued_bytes > self._limits.unsent_bytes

    @property
    def last_received(self) -> float:
        """When the client sent something."""
        return self._keepalive.last_received

    # --- what comes in ---

    def receive(self, data: memoryview, now: float) -> int:
        """Take what the client sent. Returns how many bytes were taken: the rest comes again with more behind it."""
        if self.is_closed:
            return len(data)
        self.now = self._keepalive.last_received = now
        try:
            taken = self._reader.read(data)
            self._check_unread()
        except ConnectionFault as fault:
            self.dismiss(fault.code, fault.reason)
            return len(data)
        self._deadlines.saw_rest(now, has_rest=taken < len(data) or self._blocks.is_open)
        return taken

    def begin_data(self, stream_id: int, flags: int, length: int, body_length: int) -> Stream | None:
        if self._blocks.is_open:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "DATA in the middle of a header block")
        self._received += length
        if self._received > self._half_window:
            self._replenish_connection()
        stream = self.streams.get(stream_id)
        if stream is None or stream.has_ended:
            self._stray_data(stream_id, stream)
            return None
        ends = flags & frames.END_STREAM
        if not (body_length or ends):
            self._chore()
        stream.receive_window -= length
        if stream.receive_window < 0:
            self.kill(stream, errors.FLOW_CONTROL_ERROR)
            return None
        if stream.expected_bytes >= 0:
            left = stream.expected_bytes - body_length
            if left < 0 or (ends and left):
                self.kill(stream, errors.PROTOCOL_ERROR)
                return None
            stream.expected_bytes = left
        if stream.receive_window <= self._low_window and not ends:
            self.replenish(stream)
        return stream

    def end_data(self, stream: Stream) -> None:
        stream.has_ended = True
        if stream.receiver is not None:
            stream.receiver.ended()

    def frame(self, kind: int, flags: int, stream_id: int, payload: memoryview) -> None:
        if self._blocks.is_open and kind != frames.CONTINUATION:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "a frame in the middle of a header block")
        if not self._control.has_settings and (kind != frames.SETTINGS or flags & frames.ACK):
            raise ConnectionFault(errors.PROTOCOL_ERROR, "the first frame is SETTINGS")
        if kind == frames.HEADERS:
            if self._blocks.begin(flags, stream_id, payload):
                self._take_block()
            return
        if kind == frames.CONTINUATION:
            if self._blocks.go_on(flags, stream_id, payload):
                self._take_block()
            return
        self._chore(_SETTINGS_CHORES + len(self.streams) if kind == frames.SETTINGS else 1)
        if kind == frames.RST_STREAM:
            self._rst_stream(stream_id, payload)
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "clients do not push")
        else:
            self._control.take(kind, flags, stream_id, payload)

    def _take_block(self) -> None:
        """Take a complete header block: a request begins, or ends with trailers."""
        stream_id, block, ends = self._blocks.stream_id, self._blocks.block, self._blocks.ends
        if stream_id <= self.last_stream_id:
            self._take_trailers(stream_id, block, ends=ends)
            return
        if not stream_id & 1:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "a stream with an even number")
        self.last_stream_id = stream_id
        if len(self.streams) >= self._limits.concurrent_streams or self._final_stream_id is not None:
            self._decoder.skip(block)
            if self._control.is_acknowledged:
                self._count_reset()
            self._refuse(stream_id, errors.REFUSED_STREAM)
            return
        if self._is_crowded:
            self._chore()
            self._decoder.skip(block)
            self._refuse(stream_id, errors.REFUSED_STREAM)
            return
        try:
            head = self._decoder.head(block, ends=ends)
        except StreamFault as fault:
            self._count_reset()
            self._refuse(stream_id, fault.code)
            return
        stream = Stream(stream_id, head, self, self.outbox)
        stream.receive_window = self._limits.stream_window_bytes
        stream.send_window = self.outbox.initial_window
        stream.opened_at = self.now
        stream.has_ended = ends
        self.streams[stream_id] = stream
        receiver = self._handler.begin(stream)
        if receiver is not None and stream.is_open:
            stream.receiver = receiver
            if ends:
                receiver.ended()

    def _take_trailers(self, stream_id: int, block: bytes, *, ends: bool) -> None:
        """Take a block for a stream that was opened before: trailers, or something out of place."""
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id not in self._own_resets:
                code = errors.STREAM_CLOSED if stream_id & 1 else errors.PROTOCOL_ERROR
                raise ConnectionFault(code, "headers for a stream that is closed")
            self._chore()
            self._decoder.skip(block)
            return
        if stream.has_ended:
            raise ConnectionFault(errors.STREAM_CLOSED, "headers after a request's end")
        try:
            self._decoder.check_trailers(block)
        except StreamFault as fault:
            self.kill(stream, fault.code)
            return
        if not ends or stream.expected_bytes > 0:
            self.kill(stream, errors.PROTOCOL_ERROR)
            return
        self.end_data(stream)

    def _rst_stream(self, stream_id: int, payload: memoryview) -> None:
        if len(payload) != 4:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "RST_STREAM of a wrong size")
        if not stream_id & 1 or stream_id > self.last_stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "RST_STREAM of a stream that was never opened")
        stream = self.streams.get(stream_id)
        if stream is not None:
            is_rapid = not stream.has_begun and self.now - stream.opened_at < _LONG_LIFE_SECONDS
            self._abort(stream, int.from_bytes(payload))
            if is_rapid:
                self._count_reset()

    def _stray_data(self, stream_id: int, stream: Stream | None) -> None:
        if not stream_id & 1 or stream_id > self.last_stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "DATA for a stream that was never opened")
        self._chore()
        if stream is not None:
            self.kill(stream, errors.STREAM_CLOSED)
        elif stream_id not in self._own_resets:
            self._count_reset()
            self._refuse(stream_id, errors.STREAM_CLOSED)

    # --- the life of streams ---

    def replenish(self, stream: Stream) -> None:
        """Let the client send a full window again, unless the stream is held."""
        size = self._limits.stream_window_bytes - stream.receive_window
        if size >= self._low_window and not stream.is_held and not stream.has_ended and stream.id in self.streams:
            stream.receive_window += size
            self.outbox.control(frames.window_update(stream.id, size))

    def reset(self, stream: Stream, code: int) -> None:
        """End a stream for the handler."""
        self._abort(stream, code)
        self._refuse(stream.id, code)

    def kill(self, stream: Stream, code: int) -> None:
        """Reset a stream for its client's fault: whoever makes the server reset is counted as if it did so itself."""
        self._abort(stream, code)
        self._refuse(stream.id, code)
        self._count_reset()

    def _drop(self, stream: Stream) -> None:
        """Give up an answer for which there is no room: gRPC calls that RESOURCE_EXHAUSTED."""
        self._abort(stream, errors.ENHANCE_YOUR_CALM)
        self._refuse(stream.id, errors.ENHANCE_YOUR_CALM)

    def _sent(self, stream: Stream) -> None:
        """The answer is complete."""
        del self.streams[stream.id]
        self._answered += 1
        if not stream.has_ended:
            self._refuse(stream.id, errors.NO_ERROR)
        if self._final_stream_id is not None and not self.streams:
            self.is_closed = True

    def _abort(self, stream: Stream, code: int) -> None:
        stream.is_open = False
        receiver, stream.receiver = stream.receiver, None
        self.streams.pop(stream.id, None)
        self.outbox.forget(stream)
        if receiver is not None:
            receiver.aborted(code)
        if self._final_stream_id is not None and not self.streams:
            self.is_closed = True

    def _refuse(self, stream_id: int, code: int) -> None:
        self.outbox.control(frames.rst_stream(stream_id, code))
        self._own_resets[stream_id] = None
        if len(self._own_resets) > _REMEMBERED_RESETS:
            del self._own_resets[next(iter(self._own_resets))]

    # --- the life of the connection ---

    def drain(self, now: float) -> None:
        """Ask the client to go elsewhere: first that it opens no stream, then, once it knows, that none is taken."""
        if self._deadlines.begin_drain(now) and not self.is_closed:
            self.outbox.control(frames.goaway(frames.STREAM_MASK, errors.NO_ERROR))
            self.outbox.control(frames.ping(DRAIN_PING))

    def drained(self) -> None:
        """The client has read the first GOAWAY, or has had its time."""
        if self._final_stream_id is None and not self.is_closed:
            self._final_stream_id = self.last_stream_id
            self.outbox.control(frames.goaway(self._final_stream_id, errors.NO_ERROR))
            if not self.streams:
                self.is_closed = True

    def tick(self, now: float) -> None:
        """Do what the time asks for; called every now and then."""
        if self.is_closed:
            return
        self.now = now
        is_waiting = any(stream.queue for stream in self.streams.values()) or not self.outbox.is_writable
        self._deadlines.saw_output(now, is_waiting=is_waiting, sends=self.outbox.sends - self.outbox.blocks)
        fault = self._deadlines.missed(now, has_shaken_hands=self.has_shaken_hands, is_crowded=self._is_crowded)
        if fault is not None:
            self.dismiss(fault.code, fault.reason)
            return
        if self._limits.pause_seconds:
            self._tell_pauses(now)
        if self._deadlines.is_due(now, is_idle=not self.streams):
            self.drain(now)
        if self._deadlines.is_drain_over(now):
            self.drained()
        verdict = self._keepalive.check(now, self.outbox.sends, has_calls=bool(self.streams))
        if verdict is Verdict.PING:
            self.outbox.control(frames.ping(KEEPALIVE_PING))
        elif verdict is Verdict.HANG_UP:
            self.dismiss(errors.NO_ERROR, "keepalive_timeout")

    def _tell_pauses(self, now: float) -> None:
        """Tell the receivers of requests of which nothing came since long."""
        before = self._pauses
        self._pauses = pauses = {}
        for stream in list(self.streams.values()):
            if stream.has_ended or stream.receiver is None:
                continue
            window, since = before.get(stream.id, (-1, now))
            if stream.receive_window != window:
                window, since = stream.receive_window, now
            pauses[stream.id] = window, since
            if now - since > self._limits.pause_seconds:
                stream.receiver.paused()

    def dismiss(self, code: int, reason: str) -> None:
        """Hang up, and say why."""
        if not self.is_closed:
            self.is_closed = self.is_dismissed = True
            last = self.last_stream_id if self._final_stream_id is None else self._final_stream_id
            self.outbox.control(frames.goaway(last, code, reason.encode()))
            self.lose(code)

    def lose(self, code: int = errors.CANCEL) -> None:
        """The client is gone: whoever works for it is told."""
        self.is_closed = True
        self._final_stream_id = self.last_stream_id
        for stream in list(self.streams.values()):
            self._abort(stream, code)

    # --- budgets ---

    def _count_reset(self) -> None:
        if not self._resets.spend(self.now, self._answered):
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "too many resets")

    def _chore(self, amount: int = 1) -> None:
        if not self._chores.spend(self.now, self.outbox.sends, amount):
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def _check_unread(self) -> None:
        if self.outbox.size > 2 * BUFFERED_BYTES:
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "frames that ask for more than is read")

    def _replenish_connection(self) -> None:
        if self._received > self._limits.connection_window_bytes:
            raise ConnectionFault(errors.FLOW_CONTROL_ERROR, "more than the connection's window")
        self.outbox.control(frames.window_update(0, self._received))
        self._received = 0
