"""Frames on their way to the client: flow control, fair turns between streams, and bounds on what waits."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault, StreamFault
from charonia_runtime.wires.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    SMALLEST_FRAME_LIMIT,
    block_frames,
    frame_header,
)
from charonia_runtime.wires.http2.limits import BUFFERED_BYTES, LARGEST_WINDOW
from charonia_runtime.wires.http2.stream import Buffer, Stream

_INITIAL_WINDOW: Final = 65535
_LARGEST_FRAME: Final = 256 * 1024
"""Larger frames than this are not sent, whatever the client takes: other streams want their turn."""
_TURN_BYTES: Final = 256 * 1024
"""What a stream sends before the next one."""
_TABLE_SIZE_ZERO: Final = b"\x20"


class Outbox:
    """
    The sending half of a connection.

    What may be written now is in `frames`, at most about `BUFFERED_BYTES`; what flow control or a full socket holds
    back stays, uncopied, in the queues of its streams: `queued_bytes`. `sends` counts pieces of answers. `wake` is
    called when the first frame waits to be written, `sent` with each stream whose answer is complete, `drop` with each
    that has something to send although more than `most_bytes` is queued.
    """

    def __init__(
        self,
        wake: Callable[[], None],
        sent: Callable[[Stream], None],
        drop: Callable[[Stream], None],
        most_bytes: int,
    ) -> None:
        self._wake = wake
        self._sent = sent
        self._drop = drop
        self._most_bytes = most_bytes
        self.frames: list[Buffer] = []
        self.size = 0
        self.queued_bytes = 0
        self.is_awake = False
        self.is_writable = True
        self.sends = 0
        self.blocks = 0
        """Header blocks among them that went out alone: no window holds them back, so they are no sign of a reader."""
        self.last_size = 0
        self._window = _INITIAL_WINDOW
        self.initial_window = _INITIAL_WINDOW
        self._frame_bytes = SMALLEST_FRAME_LIMIT
        self._announces_table_size = False
        self._ready: deque[Stream] = deque()
        self._stalled: deque[Stream] = deque()
        self._drained: list[Stream] = []

    # --- what goes in ---

    def control(self, frame: bytes) -> None:
        """Send a frame that no window holds back."""
        self.frames.append(frame)
        self.size += len(frame)
        if not self.is_awake:
            self._rouse()

    def answer(self, stream: Stream, head: bytes, parts: Sequence[Buffer], trailers: bytes) -> None:
        """Send a whole answer, in one buffer if it is small and nothing is in its way."""
        size = 0
        for part in parts:
            size += len(part)
        if (
            size > SMALLEST_FRAME_LIMIT
            or size > self._window
            or size > stream.send_window
            or stream.queue
            or not self.is_writable
            or self.size > BUFFERED_BYTES
            or self._announces_table_size
            or len(head) > SMALLEST_FRAME_LIMIT
            or len(trailers) > SMALLEST_FRAME_LIMIT
        ):
            if self.queued_bytes > self._most_bytes:
                self._drop(stream)
                return
            self.send_block(stream, head, ends=False)
            self.send_data(stream, parts)
            self.send_block(stream, trailers, ends=True)
            return
        self._window -= size
        stream_id = stream.id
        frame = b"".join((
            frame_header(len(head), HEADERS, END_HEADERS, stream_id), head,
            frame_header(size, DATA, 0, stream_id) if size else b"", *parts,
            frame_header(len(trailers), HEADERS, END_HEADERS | END_STREAM, stream_id), trailers,
        ))  # fmt: skip
        self.frames.append(frame)
        self.size += len(frame)
        self.sends += 1
        if not self.is_awake:
            self._rouse()
        self._sent(stream)

    def send_block(self, stream: Stream, block: bytes, *, ends: bool) -> None:
        """Send a header block after what the stream has sent before; the last if it `ends` the stream."""
        if self._announces_table_size:
            block = _TABLE_SIZE_ZERO + block
            self._announces_table_size = False
        frames = block_frames(block, ends=ends, stream_id=stream.id, frame_bytes=self._frame_bytes)
        if stream.queue or not self._has_room():
            self._enqueue(stream, (frames,))
            return
        self.sends += 1
        self.blocks += 1
        self.control(frames)
        if ends:
            self._sent(stream)

    def send_data(self, stream: Stream, parts: Sequence[Buffer]) -> None:
        """Send a piece of the body after what the stream has sent before."""
        stream.has_begun = True
        size = 0
        for part in parts:
            size += len(part)
        if not size:
            return
        if (
            size > SMALLEST_FRAME_LIMIT
            or size > self._window
            or size > stream.send_window
            or stream.queue
            or not self._has_room()
        ):
            if self.queued_bytes > self._most_bytes and stream.is_open:
                self._drop(stream)
                return
            self._enqueue(
                stream, (part if isinstance(part, memoryview) else memoryview(part) for part in parts if part)
            )
            return
        self._window -= size
        stream.send_window -= size
        self.sends += 1
        self.control(b"".join((frame_header(size, DATA, 0, stream.id), *parts)))

    def when_ready(self, stream: Stream, resume: Callable[[], None]) -> None:
        """Call `resume` once the stream has nothing left to send and the socket takes more."""
        if stream.resume is not None:
            stream.resume = _in_turn(stream.resume, resume)
        elif stream.queue:
            stream.resume = resume
        elif self._has_room() or not stream.is_open:
            resume()
        else:
            stream.resume = resume
            self._drained.append(stream)

    # --- what comes out ---

    def take(self) -> list[Buffer]:
        """What is to be written now, in order."""
        self.pump()
        frames = self.frames
        self.frames = []
        self.last_size = self.size
        self.size = 0
        return frames

    def pump(self) -> None:
        """Turn what streams have queued into frames, as far as windows and bounds allow."""
        ready, stalled = self._ready, self._stalled
        while self._has_room():
            if ready:
                stream = ready.popleft()
            elif stalled and self._window > 0:
                stream = stalled.popleft()
            else:
                break
            if self._send_queued(stream):
                (ready if self._window > 0 else stalled).append(stream)

    def resume_drained(self) -> bool:
        """Call those that wait for what was written; False if there are none, or the socket is full."""
        if not self._drained or not self._has_room():
            return False
        waiting, self._drained = self._drained, []
        for stream in waiting:
            resume, stream.resume = stream.resume, None
            if resume is not None:
                resume()
        return True

    def forget(self, stream: Stream) -> None:
        """Drop what the stream has queued: nobody wants it any more."""
        if stream.queue:
            self.queued_bytes -= sum(map(len, stream.queue))
        stream.queue = None
        if stream.is_queued:
            stream.is_queued = False
            for waiting in (self._ready, self._stalled):
                with suppress(ValueError):
                    waiting.remove(stream)
        resume, stream.resume = stream.resume, None
        if resume is not None:
            resume()

    # --- the client's windows ---

    def widen(self, increment: int) -> None:
        """The client takes more from all streams together; raises ConnectionFault for too much."""
        self._window += increment
        if self._window > LARGEST_WINDOW:
            raise ConnectionFault(errors.FLOW_CONTROL_ERROR, "a window larger than there is")

    def widen_stream(self, stream: Stream, increment: int) -> None:
        """The client takes more from one stream; raises StreamFault for too much."""
        stream.send_window += increment
        if stream.send_window > LARGEST_WINDOW:
            raise StreamFault(errors.FLOW_CONTROL_ERROR, "a window larger than there is")
        self._requeue(stream)

    def change_initial_window(self, size: int, streams: Iterable[Stream]) -> None:
        """Give every stream the difference; raises ConnectionFault for too much."""
        difference = size - self.initial_window
        self.initial_window = size
        for stream in streams:
            stream.send_window += difference
            if stream.send_window > LARGEST_WINDOW:
                raise ConnectionFault(errors.FLOW_CONTROL_ERROR, "a window larger than there is")
            self._requeue(stream)

    def change_frame_limit(self, size: int) -> None:
        """Send frames of up to this size."""
        self._frame_bytes = min(size, _LARGEST_FRAME)

    def shrink_table(self) -> None:
        """The client wants a smaller dynamic table than the one that we never use: it must be told that we know."""
        self._announces_table_size = True

    # --- within ---

    def _has_room(self) -> bool:
        return self.is_writable and self.size <= BUFFERED_BYTES

    def _rouse(self) -> None:
        self.is_awake = True
        self._wake()

    def _enqueue(self, stream: Stream, parts: Iterable[Buffer]) -> None:
        if stream.queue is None:
            stream.queue = deque()
        for part in parts:
            stream.queue.append(part)
            self.queued_bytes += len(part)
        self._requeue(stream)
        if not self.is_awake:
            self._rouse()

    def _requeue(self, stream: Stream) -> None:
        if stream.queue and not stream.is_queued:
            stream.is_queued = True
            self._ready.append(stream)

    def _send_queued(self, stream: Stream) -> bool:
        """Send a turn's worth of a stream's queue; True if it can go on at its next turn."""
        queue = stream.queue
        end = self.size + _TURN_BYTES
        while queue:
            item = queue[0]
            if isinstance(item, bytes):
                queue.popleft()
                self.frames.append(item)
                self.queued_bytes -= len(item)
                self.size += len(item)
                self.sends += 1
                continue
            room = min(self._window, stream.send_window, self._frame_bytes)
            if room <= 0 or self.size > end:
                break
            self._send_frame(stream, queue, room)
        if queue and stream.send_window > 0:
            return True
        stream.is_queued = False
        if not queue:
            if stream.resume is not None:
                self._drained.append(stream)
            if not stream.is_open:
                self._sent(stream)
        return False

    def _send_frame(self, stream: Stream, queue: deque[Buffer], room: int) -> None:
        """Make one DATA frame of what is first in the queue."""
        header_at = len(self.frames)
        self.frames.append(b"")
        size = 0
        while queue and size < room and not isinstance(queue[0], bytes):
            part = queue[0]
            if len(part) <= room - size:
                queue.popleft()
            else:
                queue[0] = part[room - size :]
                part = part[: room - size]
            self.frames.append(part)
            size += len(part)
        self.frames[header_at] = frame_header(size, DATA, 0, stream.id)
        self._window -= size
        stream.send_window -= size
        self.queued_bytes -= size
        self.size += size + 9
        self.sends += 1


def _in_turn(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both
