"""Both ends of a channel's shared memory in one process, for tests of what crosses it."""

import os
from itertools import count

from charonia_runtime.ipc.arena import Arena
from charonia_runtime.ipc.frames import Frame, FrameReader
from charonia_runtime.ipc.packing import LayoutCodec, Packer, Unpacker
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

    def packer(self) -> Packer:
        return Packer(self.arena, self._sent)

    def pass_on(self, packer: Packer, kind: int = 1, entry: int = 0) -> Unpacker:
        """What the receiver reads of a frame."""
        packer.copy()
        packer.lend()
        return Unpacker(read_frame(packer.frame(kind, entry=entry)), self._received, self.theirs.borrow)


def read_frame(raw: bytes) -> Frame:
    """The only frame in `raw`."""
    reader = FrameReader(writable=True)
    frames = []
    for at in range(0, len(raw), 100_000):
        piece = raw[at : at + 100_000]
        reader.space()[: len(piece)] = piece
        reader.received(len(piece))
        frames += reader.frames()
    (frame,) = frames
    return frame
