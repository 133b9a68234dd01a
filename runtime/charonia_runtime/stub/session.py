"""The child's end of the channel: who waits for what, and which thread reads for all of them."""

import json
import os
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import Condition, Lock, Thread
from typing import Any

from charonia_runtime.core.errors import ERROR_CLASSES, ErrorCode
from charonia_runtime.ipc.arena import Arena
from charonia_runtime.ipc.channel import BlockingChannel, ChannelClosedError
from charonia_runtime.ipc.frames import CHILD_BODY_BYTES, Frame, FrameKind, encode_frame
from charonia_runtime.ipc.messages import MessageReader, RequestLayout, RequestRecord, ResponseRecord, pack_request
from charonia_runtime.ipc.packing import KnownRange, LayoutCodec, Packer
from charonia_runtime.ipc.segments import CANCELLED, CANCELLED_OFFSET, STARTED, SegmentTable

FIRST_SEGMENT = 1
_TARGET = struct.Struct("<II")


class Mailbox:
    """Frames for one waiting thread, or coroutine: `wake` is called with each new frame when it is set."""

    __slots__ = ("frames", "wake")

    def __init__(self) -> None:
        self.frames: deque[Frame] = deque()
        self.wake: Callable[[], object] | None = None


class Session:
    """
    The connection to the server, for every thread of the child.

    No thread is set aside to read: one of those that wait reads for all and deals the frames out. Coroutines cannot
    read, so the first one that waits starts a thread that reads from then on.
    """

    def __init__(self, channel: BlockingChannel, name: str, *, segment: int, size: int, growth_bytes: int) -> None:
        """`segment` is the descriptor of the first segment; its second half is for what this end sends."""
        self._channel = channel
        self._segments = SegmentTable()
        first = self._segments.add(FIRST_SEGMENT, segment, size)
        self._started = first.view[: STARTED.size]
        self._cancelled_count = first.view[CANCELLED_OFFSET : CANCELLED_OFFSET + CANCELLED.size]
        self._cancelled_known = 0
        self._cancelled: frozenset[tuple[Any, ...]] = frozenset()
        self._learning = Lock()
        self._arena = Arena(
            name,
            self._segments,
            first=first,
            part=(size // 2, size),
            numbers=count(3, 2),
            growth_bytes=growth_bytes,
            announce=channel.send_segment,
            retract=lambda number: channel.send(encode_frame(FrameKind.SEGMENT_GONE, number=number)),
        )
        self._layouts = LayoutCodec()
        self._messages = MessageReader(self._layouts)
        self._packing = Lock()
        self._lock = Lock()
        self._turn = Condition(self._lock)
        self._leading = False
        self._followers = 0
        self._reader: Thread | None = None
        self._numbers = count(1)
        self._mailboxes: dict[int, Mailbox] = {}
        self._known: list[KnownRange] = []
        self.commands = Mailbox()
        self.alive = True
        """False in a process that the model forked: the channel belongs to its parent."""
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        self.alive = False

    @property
    def free_memory(self) -> int:
        """Free bytes of the shared memory that this end hands out."""
        with self._packing:
            return self._arena.free_bytes

    # --- sending ---

    def send(self, kind: FrameKind, document: Any = None, *, entry: int = 0, number: int = 0, flags: int = 0) -> None:
        """Send a frame with a JSON body, or none."""
        body = [] if document is None else [json.dumps(document).encode("utf-8", "surrogatepass")]
        self._send(encode_frame(kind, body, flags=flags, entry=entry, number=number))

    def send_packed(
        self,
        kind: FrameKind,
        pack: Callable[[Packer], object],
        *,
        entry: int = 0,
        number: int = 0,
        flags: int = 0,
        forward: bool = False,
    ) -> int:
        """
        Send a frame that `pack` fills; give the bytes of it and of its tensors. Nothing leaves when `pack` raises.

        Raises InternalError when the frame is longer than the server takes.

        With `forward`, tensors that lie among the inputs of the batch that runs are not copied.
        """
        with self._packing:
            packer = Packer(self._arena, self._layouts, self._known if forward else (), CHILD_BODY_BYTES)
            try:
                pack(packer)
                frame = packer.frame(kind, flags=flags, entry=entry, number=number)
            except BaseException:
                packer.undo()
                raise
            size = len(frame)
            if packer.blocks:
                size += packer.copied_bytes
                packer.copy()
                packer.lend()
        self._send(frame)
        return size

    def _send(self, frame: bytes) -> None:
        if not self.alive:
            return
        try:
            self._channel.send(frame)
        except ChannelClosedError:
            _leave()

    # --- calls ---

    def call(self, name: str, arguments: Mapping[str, Any], files: Sequence[Any] = ()) -> Any:
        """Ask the server for something and wait. Raises the InferenceError that it answers."""
        number, mailbox = self.open_mailbox()
        record = RequestRecord(inputs=list(files), rest={"call": name, **arguments})

        def pack(packer: Packer) -> None:
            pack_request(packer, record)

        try:
            self.send_packed(FrameKind.CALL, pack, number=number)
            answer = json.loads(bytes(self.wait(mailbox).body))
        finally:
            self.close_mailbox(number)
        if "error" in answer:
            raise ERROR_CLASSES[ErrorCode(answer["code"])](answer["error"])
        return answer.get("result")

    def is_cancelled(self, batch: int, index: int) -> bool:
        """Whether the client of a running request is gone. The server is asked only after something was cancelled."""
        (count,) = CANCELLED.unpack_from(self._cancelled_count)
        if count != self._cancelled_known:
            self._learn_cancelled()
        return (batch, index) in self._cancelled

    def _learn_cancelled(self) -> None:
        with self._learning:
            (count,) = CANCELLED.unpack_from(self._cancelled_count)
            if count == self._cancelled_known:
                return
            number, mailbox = self.ask_about(FrameKind.IS_CANCELLED, 0, 0)
            try:
                answer = self.wait(mailbox)
            finally:
                self.close_mailbox(number)
            self._cancelled = frozenset(_TARGET.iter_unpack(answer.body))
            self._cancelled_known = count

    def ask_about(self, kind: FrameKind, batch: int, index: int) -> tuple[int, Mailbox]:
        """Ask the server something about a running request. The answer comes to the mailbox, whose number is given."""
        number, mailbox = self.open_mailbox()
        self._send(encode_frame(kind, [_TARGET.pack(batch, index)], number=number))
        return number, mailbox

    def open_mailbox(self) -> tuple[int, Mailbox]:
        number = next(self._numbers) & 0xFFFFFFFF
        mailbox = self._mailboxes[number] = Mailbox()
        return number, mailbox

    def close_mailbox(self, number: int) -> None:
        self._mailboxes.pop(number, None)

    # --- receiving ---

    def wait(self, mailbox: Mailbox) -> Frame:
        """The next frame for `mailbox`."""
        turn = self._turn
        with self._lock:
            while not mailbox.frames and self._leading:
                self._followers += 1
                turn.wait()
                self._followers -= 1
            if mailbox.frames:
                return mailbox.frames.popleft()
            self._leading = True
        try:
            while not mailbox.frames:
                frame = self._channel.receive()
                if frame.kind == FrameKind.BATCH and mailbox is self.commands:
                    return frame
                self._deal(frame)
        except ChannelClosedError:
            _leave()
        finally:
            with self._lock:
                self._leading = False
                if self._followers:
                    turn.notify_all()
        return mailbox.frames.popleft()

    def watch(self, mailbox: Mailbox, wake: Callable[[], object]) -> None:
        """Call `wake` once for each frame that is or comes in `mailbox`, from the thread that reads."""
        with self._lock:
            mailbox.wake = wake
            due = len(mailbox.frames)
            if self._reader is None:
                self._reader = Thread(target=self.wait, args=(Mailbox(),), name="channel", daemon=True)
                self._reader.start()
        for _ in range(due):
            wake()

    def response(self, frame: Frame) -> ResponseRecord:
        """The response in a frame; its blocks go back to the server when nobody looks at them any more."""
        return self._messages.response(frame, self._segments.borrow)

    def requests(self, frame: Frame) -> list[RequestLayout]:
        """The requests of a batch that is to run now."""
        self._known = []
        STARTED.pack_into(self._started, 0, frame.number)
        return self._messages.request_layouts(frame, frame.entry)

    def view_input(self, number: int, offset: int, size: int) -> memoryview:
        """A block of the batch that runs, which the server takes back with the batch's last answer."""
        view = self._segments.view(number, offset, size)
        self._known.append(KnownRange(self._segments.address(number) + offset, size, number, offset))
        return view

    def _deal(self, frame: Frame) -> None:
        kind = frame.kind
        mailbox: Mailbox | None = self.commands
        if kind != FrameKind.BATCH:
            if kind == FrameKind.SEGMENT:
                self._segments.add(*self._channel.take_segment(frame))
                return
            if kind == FrameKind.SEGMENT_GONE:
                self._segments.remove(frame.number)
                return
            if kind == FrameKind.RETURNED:
                with self._packing:
                    self._arena.collect()
                return
            if kind in (FrameKind.REPLY, FrameKind.CALLED_RESPONSE):
                mailbox = self._mailboxes.get(frame.number)
        if mailbox is None:
            if frame.kind == FrameKind.CALLED_RESPONSE:
                self._drop(frame)
            return
        with self._lock:
            mailbox.frames.append(frame)
            wake = mailbox.wake
            if self._followers:
                self._turn.notify_all()
        if wake is not None:
            wake()

    def _drop(self, frame: Frame) -> None:
        """Give back the blocks of a response that nobody waits for."""
        if frame.entry:
            self.response(frame)


def _leave() -> None:
    """The server is gone, and with it the reason to run. No handlers: they belong to the user's code."""
    os._exit(0)
