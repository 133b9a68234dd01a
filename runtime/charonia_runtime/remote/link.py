"""`Link`: one end of the channel between a frontends' process and the server, with the shared memory of both."""

import asyncio
import json
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

from charonia_runtime.ipc.arena import Arena
from charonia_runtime.ipc.channel import BlockingChannel, LoopChannel
from charonia_runtime.ipc.frames import Frame, encode_frame
from charonia_runtime.ipc.packing import LayoutCodec, Packer
from charonia_runtime.ipc.segments import SegmentTable, create_segment_file
from charonia_runtime.remote.frames import Kind
from charonia_runtime.thread_pools import COPYING

SEGMENT_BYTES: Final = 4 << 20
"""The segment that both ends begin with; half of it is each one's arena."""
_GROWTH_BYTES: Final = 16 << 20
_COPY_BYTES_ON_LOOP: Final = 4 << 20
"""Tensors above this are copied in a thread: a millisecond of the event loop is everybody's millisecond."""
_FIRST_SEGMENT: Final = 1
_SEGMENT: Final = int(Kind.SEGMENT)


@dataclass(slots=True)
class Ends:
    """What the two ends of a link are made of, before either has its own: a socket each, and a descriptor to share."""

    ours: socket.socket
    theirs: socket.socket
    segment: int

    @classmethod
    def make(cls) -> "Ends":
        """Raises OSError when there is no memory, or no descriptor, for it."""
        segment = create_segment_file(SEGMENT_BYTES)
        ours, theirs = socket.socketpair()
        return cls(ours, theirs, segment)


@dataclass(slots=True)
class _Outgoing:
    """A frame that waits until its tensors, or those of an earlier one, are in place."""

    packer: Packer
    kind: Kind
    flags: int
    number: int


class Link:
    """
    One end. Made on a running event loop and used there; `segment`, a descriptor, is closed.

    `received` gets every frame that is about more than the link itself, `closed` is called once if the peer is gone.
    The server's end is the `near` one.
    """

    def __init__(
        self,
        sock: socket.socket,
        segment: int,
        received: Callable[[Frame], None],
        closed: Callable[[], None],
        *,
        near: bool,
    ) -> None:
        self.segments = SegmentTable()
        self.layouts = LayoutCodec()
        self.closed = False
        self._received = received
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._channel = channel = LoopChannel(BlockingChannel(sock, writable=False), self._loop, self._take, self._end)
        half = SEGMENT_BYTES // 2
        self._arena = Arena(
            "frontends",
            self.segments,
            first=self.segments.add(_FIRST_SEGMENT, segment, SEGMENT_BYTES),
            part=(0, half) if near else (half, SEGMENT_BYTES),
            numbers=count(2 if near else 3, 2),
            growth_bytes=_GROWTH_BYTES,
            announce=channel.send_segment,
            retract=partial(_retract, channel),
        )
        self._copying: dict[int, deque[_Outgoing]] = {}
        self._holds = False

    def packer(self) -> Packer:
        """An empty frame."""
        return Packer(self._arena, self.layouts)

    def post(self, kind: Kind, packer: Packer, *, flags: int = 0, number: int = 0) -> None:
        """Send a frame when its tensors are in shared memory. Frames of one number leave in the order of the calls."""
        if not packer.copies and number not in self._copying:
            packer.lend()
            self._transmit(packer.frame(kind, flags=flags, number=number))
            return
        outgoing = _Outgoing(packer, kind, flags, number)
        waiting = self._copying.get(number)
        if waiting is not None:
            waiting.append(outgoing)
        elif packer.copied_bytes > _COPY_BYTES_ON_LOOP:
            self._copying[number] = deque()
            self._copy(outgoing)
        else:
            packer.copy()
            self._depart(outgoing)

    def send(self, kind: Kind, *, number: int = 0) -> None:
        """Send a frame that says all by its kind, in the same order."""
        if number in self._copying:
            self.post(kind, self.packer(), number=number)
        else:
            self._transmit(encode_frame(kind, number=number))

    def tell(self, kind: Kind, document: Mapping[str, Any], *, number: int) -> None:
        """Send a JSON document, in the same order."""
        packer = self.packer()
        packer.add_data(json.dumps(document).encode())
        self.post(kind, packer, number=number)

    def say(self, kind: Kind, document: Mapping[str, Any] | None = None, *, number: int = 0) -> None:
        """Send a document that is about no request, in the order of such calls. It overtakes what waits for copies."""
        self._transmit(encode_frame(kind, () if document is None else [json.dumps(document).encode()], number=number))

    def close(self) -> None:
        """Stop at once. `closed` is not called."""
        self.closed = True
        self._channel.close()
        self._received, self._closed = _ignore_frame, _ignore_end

    # --- out ---

    def _copy(self, outgoing: _Outgoing) -> None:
        copied = partial(self._copied, outgoing)
        COPYING.start(outgoing.packer.copy, lambda _: copied(), lambda _: copied(), size=outgoing.packer.copied_bytes)

    def _copied(self, outgoing: _Outgoing) -> None:
        self._depart(outgoing)
        waiting = self._copying[outgoing.number]
        while waiting:
            following = waiting.popleft()
            if following.packer.copied_bytes > _COPY_BYTES_ON_LOOP:
                self._copy(following)
                return
            following.packer.copy()
            self._depart(following)
        del self._copying[outgoing.number]

    def _depart(self, outgoing: _Outgoing) -> None:
        packer = outgoing.packer
        packer.lend()
        self._transmit(packer.frame(outgoing.kind, flags=outgoing.flags, number=outgoing.number))

    def _transmit(self, frame: bytes) -> None:
        """Send with all else of this turn of the loop: the peer is woken once."""
        if not self._holds:
            self._holds = True
            self._channel.hold()
            self._loop.call_soon(self._release)
        self._channel.send(frame)

    def _release(self) -> None:
        self._holds = False
        self._channel.release()

    # --- in ---

    def _take(self, frame: Frame) -> None:
        kind = frame.kind
        if kind < _SEGMENT:
            self._received(frame)
        elif kind == _SEGMENT:
            self.segments.add(*self._channel.take_segment(frame))
        else:
            self.segments.remove(frame.number)

    def _end(self) -> None:
        closed = self._closed
        self.close()
        closed()


def document_of(frame: Frame) -> dict[str, Any]:
    """What `Link.tell` or `Link.say` sent."""
    document: dict[str, Any] = json.loads(bytes(frame.body).rstrip(b"\0"))
    return document


def _retract(channel: LoopChannel, number: int) -> None:
    channel.send(encode_frame(Kind.SEGMENT_GONE, number=number))


def _ignore_frame(frame: Frame) -> None:
    """For a link that is closed."""


def _ignore_end() -> None:
    """For a link that is closed."""
