"""Tensors in frames: small ones behind the records, large ones as blocks of the arena."""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.arena import Arena, Block
from charonia_runtime.ipc.frames import ALIGNMENT, HEADER, MAX_BODY_BYTES, Frame

INLINE_BYTES = 1 << 14
"""Tensors up to this size travel inside the frame: two copies through the socket cost less than a block."""
_INLINE_BYTES_PER_FRAME = 1 << 16
_PLACE = struct.Struct("<HHQQ")
"""Length of the descriptor, segment (0: in this frame), offset, size in bytes. The descriptor follows."""
_DESCRIPTOR = struct.Struct("<BBH")
"""Data type, number of dimensions, length of the name. The name and the dimensions follow."""
_REMEMBERED = 4096
_TYPES = tuple(DataType)
_TYPE_NUMBERS = {datatype.wire_name: number for number, datatype in enumerate(_TYPES)}
_PADDING = tuple(bytes(size) for size in range(ALIGNMENT))

Layout = tuple[str, DataType, tuple[int, ...]]
"""Name, data type and shape of a tensor."""


Mark = tuple[int, int, int, int]
"""How many records, pieces of data, bytes of data and blocks a frame has."""


class KnownRange(NamedTuple):
    """Bytes of a segment that the receiver of a frame knows already: `address` is where this process sees them."""

    address: int
    size: int
    segment: int
    offset: int


class LayoutCodec:
    """Layouts ⇄ descriptors. The same few come again and again, so both directions remember them."""

    __slots__ = ("_decoded", "_encoded")

    def __init__(self) -> None:
        self._encoded: dict[tuple[str, str, tuple[int, ...]], bytes] = {}
        self._decoded: dict[bytes, Layout] = {}

    def encode(self, name: str, datatype: DataType, shape: tuple[int, ...]) -> bytes:
        key = (name, datatype.wire_name, shape)
        found = self._encoded.get(key)
        if found is None:
            raw = name.encode()
            if len(raw) > 0x7FFF or len(shape) > 0xFF:
                raise InternalError(f"tensor '{name[:64]}' has a name or a shape that is too long")
            fields = _DESCRIPTOR.pack(_TYPE_NUMBERS[datatype.wire_name], len(shape), len(raw))
            found = fields + raw + struct.pack(f"<{len(shape)}q", *shape)
            if len(self._encoded) >= _REMEMBERED:
                self._encoded.clear()
            self._encoded[key] = found
        return found

    def decode(self, descriptor: bytes) -> Layout:
        found = self._decoded.get(descriptor)
        if found is None:
            number, dimensions, length = _DESCRIPTOR.unpack_from(descriptor)
            begin = _DESCRIPTOR.size + length
            name = descriptor[_DESCRIPTOR.size : begin].decode()
            found = (name, _TYPES[number], struct.unpack_from(f"<{dimensions}q", descriptor, begin))
            if len(self._decoded) >= _REMEMBERED:
                self._decoded.clear()
            self._decoded[descriptor] = found
        return found


class Packer:
    """
    The body of one frame while it is written.

    `blocks` are those of the arena that it refers to; `copies` are blocks and what is still to be copied into them,
    by `copy`, before the frame may leave. Bytes that lie in one of `known` are not copied but referred to.
    """

    __slots__ = ("_arena", "_data", "_data_size", "_known", "_layouts", "_records", "blocks", "copies")

    def __init__(self, arena: Arena, layouts: LayoutCodec, known: Sequence[KnownRange] = ()) -> None:
        self._arena = arena
        self._layouts = layouts
        self._known = known
        self._records: list[bytes] = []
        self._data: list[bytes | memoryview] = []
        self._data_size = 0
        self.blocks: list[Block] = []
        self.copies: list[tuple[Block, memoryview]] = []

    def add(self, *records: bytes) -> None:
        self._records += records

    def add_tensor(self, tensor: Tensor, shape: tuple[int, ...] | None = None) -> None:
        """Add a tensor, as if it had `shape` where one is given. Raises InternalError when memory is short."""
        data = tensor.buffer
        size = data.nbytes
        descriptor = self._layouts.encode(tensor.name, tensor.datatype, tensor.shape if shape is None else shape)
        if size <= INLINE_BYTES and self._data_size + size <= _INLINE_BYTES_PER_FRAME:
            self._records += (_PLACE.pack(len(descriptor), 0, self._data_size, size), descriptor)
            self._add_data(data, size)
            return
        place = self._find_known(data) if self._known else None
        if place is not None:
            self._records += (_PLACE.pack(len(descriptor), *place, size), descriptor)
            return
        block = self._arena.allocate(size)
        self.blocks.append(block)
        self.copies.append((block, data))
        self._records += (_PLACE.pack(len(descriptor), block.segment.number, block.offset, size), descriptor)

    def copy(self) -> None:
        """Fill the blocks. May run in another thread; numpy lets others run meanwhile."""
        for block, data in self.copies:
            np.copyto(np.frombuffer(block.view, np.uint8), np.frombuffer(data, np.uint8))
        self.copies.clear()

    @property
    def copied_bytes(self) -> int:
        """How much `copy` has to do."""
        return sum(block.size for block, _ in self.copies)

    def mark(self) -> Mark:
        """Where the frame is now, for `undo_to`."""
        return len(self._records), len(self._data), self._data_size, len(self.blocks)

    def undo_to(self, mark: Mark) -> None:
        """Take back all that was added since `mark`."""
        records, data, self._data_size, blocks = mark
        del self._records[records:], self._data[data:], self.copies[blocks:]
        for block in self.blocks[blocks:]:
            self._arena.free(block)
        del self.blocks[blocks:]

    def undo(self) -> None:
        """Free the blocks of a frame that will not leave."""
        for block in self.blocks:
            self._arena.free(block)
        self.blocks.clear()

    def lend(self) -> None:
        """Leave the blocks to the peer."""
        for block in self.blocks:
            self._arena.lend(block)

    def frame(self, kind: int, *, flags: int = 0, entry: int = 0, number: int = 0) -> bytes:
        """The finished frame."""
        records = b"".join(self._records)
        padding = _PADDING[-len(records) % ALIGNMENT]
        data_offset = len(records) + len(padding)
        size = data_offset + self._data_size
        if size > MAX_BODY_BYTES:
            raise InternalError(f"a message of {size} bytes is too long")
        return b"".join((HEADER.pack(size, kind, flags, entry, number, data_offset), records, padding, *self._data))

    def _find_known(self, data: memoryview) -> tuple[int, int] | None:
        start = np.frombuffer(data, np.uint8).ctypes.data
        for known in self._known:
            if known.address <= start and start + data.nbytes <= known.address + known.size:
                return known.segment, known.offset + start - known.address
        return None

    def _add_data(self, data: memoryview, size: int) -> None:
        self._data.append(data)
        padding = -size % ALIGNMENT
        if padding:
            self._data.append(_PADDING[padding])
        self._data_size += size + padding


View = Callable[[int, int, int], memoryview]
"""Bytes of a segment by its number, an offset and a size: `SegmentTable.view` or `SegmentTable.borrow`."""


class Unpacker:
    """Reads the body of one frame from front to back; `view` takes blocks of shared memory."""

    __slots__ = ("_at", "_body", "_data_offset", "_layouts", "_view")

    def __init__(self, frame: Frame, layouts: LayoutCodec, view: View) -> None:
        self._body = frame.body
        self._data_offset = frame.data_offset
        self._layouts = layouts
        self._view = view
        self._at = 0

    def unpack(self, record: struct.Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = record.unpack_from(self._body, self._at)
        self._at += record.size
        return values

    def take(self, size: int) -> bytes:
        begin = self._at
        self._at = begin + size
        return bytes(self._body[begin : begin + size])

    def tensor(self) -> Tensor:
        length, segment, offset, size = _PLACE.unpack_from(self._body, self._at)
        begin = self._at + _PLACE.size
        self._at = end = begin + length
        name, datatype, shape = self._layouts.decode(bytes(self._body[begin:end]))
        if segment:
            return Tensor(name, datatype, shape, self._view(segment, offset, size))
        begin = self._data_offset + offset
        return Tensor(name, datatype, shape, self._body[begin : begin + size])
