"""
Frames over a socketpair: `BlockingChannel` for threads, `LoopChannel` for an asyncio loop.

End of file means that the peer is gone. Descriptors of shared-memory segments travel beside the frame that names them.
"""

import array
import asyncio
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

from charonia_runtime.core.errors import InternalError
from charonia_runtime.ipc.frames import MAX_BODY_BYTES, Frame, FrameKind, FrameReader, encode_frame

logger = logging.getLogger(__name__)

_DESCRIPTORS_PER_MESSAGE = 16
_ANCILLARY_BYTES = socket.CMSG_SPACE(_DESCRIPTORS_PER_MESSAGE * 4)
_MOST_DESCRIPTORS = 64
"""So many may wait for the frames that name them."""
_SEGMENT_SIZE = struct.Struct("<Q")


class ChannelClosedError(Exception):
    """The peer is gone."""


class _Receiver:
    """The receiving half, for both kinds of channel."""

    __slots__ = ("_descriptors", "_reader", "_socket", "take")

    def __init__(self, sock: socket.socket, *, writable: bool, most_bytes: int) -> None:
        self._socket = sock
        self._reader = FrameReader(writable=writable, most_bytes=most_bytes)
        self._descriptors: deque[int] = deque()
        self.take: Callable[[], Frame | None] = self._reader.take
        """The next frame that was read; None without."""

    def read(self) -> None:
        """
        Read once.

        Raises ChannelClosedError at the end of file, BlockingIOError when nothing is due, InternalError when more
        descriptors come than frames that name them.
        """
        try:
            size, ancillary, _, _ = self._socket.recvmsg_into([self._reader.space()], _ANCILLARY_BYTES)
        except (BlockingIOError, TimeoutError):
            raise
        except OSError:
            raise ChannelClosedError from None
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors.extend(array.array("i", data[: len(data) - len(data) % 4]))
        if size == 0:
            raise ChannelClosedError
        if len(self._descriptors) > _MOST_DESCRIPTORS:
            raise InternalError("malformed frame: descriptors without segments")
        self._reader.received(size)

    @property
    def is_amid_frame(self) -> bool:
        """Whether a frame has arrived in part, once no whole one is left to take."""
        return self._reader.is_amid_frame

    def take_segment(self, frame: Frame) -> tuple[int, int, int]:
        """Number, descriptor and size of the segment that a SEGMENT frame announces."""
        if not self._descriptors:
            raise InternalError("malformed frame: a segment without a descriptor")
        (size,) = _SEGMENT_SIZE.unpack_from(frame.body)
        return frame.number, self._descriptors.popleft(), size

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popleft())


def _ignore_frame(frame: Frame) -> None:
    """For a channel that is closed."""


def _ignore_end() -> None:
    """For a channel that is closed."""


def _segment_frame(number: int, size: int) -> bytes:
    return encode_frame(FrameKind.SEGMENT, [_SEGMENT_SIZE.pack(size)], number=number)


class BlockingChannel:
    """An end that blocks. Any thread may send; one at a time may receive. Received bodies are writable."""

    def __init__(self, sock: socket.socket, *, writable: bool = True, most_bytes: int = MAX_BODY_BYTES) -> None:
        """`most_bytes` limits the bodies of received frames."""
        sock.setblocking(True)
        self.socket = sock
        self._receiver = _Receiver(sock, writable=writable, most_bytes=most_bytes)
        self._sending = RLock()  # a frame that is collected while its thread sends may send, too

    def send(self, frame: bytes) -> bool:
        """Send a frame. Raises ChannelClosedError when the peer is gone."""
        try:
            with self._sending:
                self.socket.sendall(frame)
        except OSError:
            raise ChannelClosedError from None
        return True

    def send_segment(self, number: int, descriptor: int, size: int) -> None:
        frame = _segment_frame(number, size)
        try:
            with self._sending:
                sent = socket.send_fds(self.socket, [frame], [descriptor])
                self.socket.sendall(frame[sent:])
        except OSError:
            raise ChannelClosedError from None

    def receive(self) -> Frame:
        """
        The next frame.

        Raises ChannelClosedError at the end, TimeoutError after the socket's timeout, InternalError for what is no
        frame.
        """
        receiver = self._receiver
        while (frame := receiver.take()) is None:
            receiver.read()
        return frame

    def take_segment(self, frame: Frame) -> tuple[int, int, int]:
        return self._receiver.take_segment(frame)

    def close(self) -> None:
        self._receiver.close()
        self.socket.close()

    def hand_over(self) -> tuple[socket.socket, "_Receiver"]:
        """The socket with all that was received but not taken, for a `LoopChannel`."""
        return self.socket, self._receiver


class LoopChannel:
    """
    An end on an event loop, made of a blocking one that is not used any more.

    `received` is called with each frame, `closed` once when the peer is gone. A peer that sends what is no frame counts
    as gone, and with `stall_seconds` so does one that leaves a frame unfinished for that time, or up to twice as long.
    Sending never blocks: what the socket does not take waits here.
    """

    def __init__(
        self,
        channel: BlockingChannel,
        loop: asyncio.AbstractEventLoop,
        received: Callable[[Frame], None],
        closed: Callable[[], None],
        *,
        stall_seconds: float = 0,
    ) -> None:
        self._socket, self._receiver = channel.hand_over()
        self._stall_seconds = stall_seconds
        self._stall: asyncio.TimerHandle | None = None
        self._has_heard = False
        self._loop = loop
        self._received = received
        self._closed = closed
        self._waiting: deque[tuple[memoryview, int]] = deque()
        self._held: list[bytes] | None = None
        self._open = True
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._readable)
        loop.call_soon(self._deliver)

    def send(self, frame: bytes) -> bool:
        """Send a frame. False when the peer is known to be gone: it will never see any of it."""
        if self._held is not None:
            self._held.append(frame)
            return True
        if self._waiting:
            self._waiting.append((memoryview(frame), -1))
            return True
        if not self._open:
            return False
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent < len(frame):
            self._wait(memoryview(frame)[sent:], -1)
        return True

    def send_soon(self, frame: bytes) -> None:
        """Send a frame from any thread. Nothing is sent when the loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.send, frame)

    def hold(self) -> None:
        """Keep what is sent from now on until `release`: the peer is woken once for all of it."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Send what was held."""
        held, self._held = self._held, None
        if held:
            self.send(held[0] if len(held) == 1 else b"".join(held))

    def send_segment(self, number: int, descriptor: int, size: int) -> None:
        """Announce a segment. The descriptor stays the caller's."""
        self._flush()
        if self._open:
            self._wait(memoryview(_segment_frame(number, size)), os.dup(descriptor))
            self._writable()

    def take_segment(self, frame: Frame) -> tuple[int, int, int]:
        return self._receiver.take_segment(frame)

    def close(self) -> None:
        """Stop at once. `closed` is not called."""
        if not self._open:
            return
        self._open = False
        if self._stall is not None:
            self._stall.cancel()
        self._loop.remove_reader(self._socket)
        if self._waiting:
            self._loop.remove_writer(self._socket)
        for _, descriptor in self._waiting:
            if descriptor >= 0:
                os.close(descriptor)
        self._waiting.clear()
        self._held = None
        self._received, self._closed = _ignore_frame, _ignore_end  # whom they led to need not wait for a collection
        self._receiver.close()
        self._socket.close()

    def _flush(self) -> None:
        if self._held:
            self.release()
            self.hold()

    def _readable(self) -> None:
        try:
            self._receiver.read()
        except BlockingIOError:
            return
        except ChannelClosedError:
            self._end()
            return
        except InternalError as error:
            self._give_up(error)
            return
        self._has_heard = True
        self._deliver()
        if self._stall_seconds and self._stall is None and self._receiver.is_amid_frame and self._open:
            self._watch_for_stall()

    def _deliver(self) -> None:
        try:
            take = self._receiver.take
            while self._open and (frame := take()) is not None:
                self._received(frame)
        except (InternalError, struct.error, ValueError, IndexError) as error:
            self._give_up(error)

    def _watch_for_stall(self) -> None:
        self._has_heard = False
        self._stall = self._loop.call_later(self._stall_seconds, self._check_stall)

    def _check_stall(self) -> None:
        self._stall = None
        if not self._receiver.is_amid_frame:
            return
        if self._has_heard:
            self._watch_for_stall()
        else:
            self._give_up(InternalError(f"malformed frame: its end did not come within {self._stall_seconds:g} s"))

    def _give_up(self, error: Exception) -> None:
        """A peer that sends nonsense is as good as gone."""
        logger.error("a channel is closed: %s", error)
        self._end()

    def _end(self) -> None:
        if self._open:
            closed = self._closed
            self.close()
            closed()

    def _wait(self, data: memoryview, descriptor: int) -> None:
        if not self._waiting:
            self._loop.add_writer(self._socket, self._writable)
        self._waiting.append((data, descriptor))

    def _writable(self) -> None:
        while self._waiting:
            data, descriptor = self._waiting[0]
            try:
                if descriptor >= 0:
                    sent = socket.send_fds(self._socket, [data], [descriptor])
                else:
                    sent = self._socket.send(data)
            except BlockingIOError:
                return
            except OSError:
                sent = len(data)  # the reader finds the end of file
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
            if sent < len(data):
                self._waiting[0] = (data[sent:], -1)
                return
            self._waiting.popleft()
        self._loop.remove_writer(self._socket)
