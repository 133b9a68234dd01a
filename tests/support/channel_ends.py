"""Both ends of a channel's shared memory in one process, for tests of what crosses it."""

import os
from itertools import count

from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.arena import Arena
from charonia_runtime.ipc.frames import Frame, FrameReader
from charonia_runtime.ipc.messages import MessageReader
from charonia_runtime.ipc.packing import LayoutCodec, LayoutReader, Packer
from charonia_runtime.ipc.segments import SegmentTable, create_segment_file


class ChannelEnds:
    """A sender with an arena, and a receiver that maps its segments. Layouts are remembered on each end."""

    def __init__(self, size: int = 1 << 20) -> None:
        self.own, self.theirs = SegmentTable(), SegmentTable()
        descriptor = create_segment_file(size)
        self.theirs.add(1, os.dup(descriptor), size)
        self.arena = Arena(
            "key",
            self.own,
            first=self.own.add(1, descriptor, size),
            part=(0, size),
            numbers=count(2, 2),
            growth_bytes=1 << 20,
            announce=lambda number, file, bytes_: self.theirs.add(number, os.dup(file), bytes_),
            retract=self.theirs.remove,
        )
        self._sent, self._received = LayoutCodec(), LayoutCodec()
        self.messages = MessageReader(self._received)

    def packer(self) -> Packer:
        return Packer(self.arena, self._sent)

    def pass_on(self, packer: Packer, kind: int = 1, entry: int = 0) -> Frame:
        """The frame as the receiver gets it."""
        packer.copy()
        packer.lend()
        return read_frame(packer.frame(kind, entry=entry))

    def reader(self, frame: Frame) -> LayoutReader:
        """What the receiver reads the records of a frame with."""
        return LayoutReader(bytes(frame.body[: frame.data_offset]), self._received)

    def tensors(self, packer: Packer, count: int) -> list[Tensor]:
        """What the receiver finds in a frame of `count` tensors."""
        frame = self.pass_on(packer)
        reader = self.reader(frame)
        return [reader.tensor().read(frame.body, self.theirs.borrow) for _ in range(count)]


def read_frame(raw: bytes) -> Frame:
    """The only frame in `raw`."""
    reader = FrameReader(writable=True)
    frames = []
    for at in range(0, len(raw), 100_000):
        piece = raw[at : at + 100_000]
        reader.space()[: len(piece)] = piece
        reader.received(len(piece))
        while (frame := reader.take()) is not None:
            frames.append(frame)
    (frame,) = frames
    return frame
