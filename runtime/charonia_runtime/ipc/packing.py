"""
Tensors in frames: small ones behind the records, large ones as blocks of the arena.

Records say only what frames of the same kind of requests have in common. What differs among them lies in the data, so
that the receiver need not read the same records twice.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.core.texts import utf8_text
from charonia_runtime.ipc.arena import Arena, Block
from charonia_runtime.ipc.frames import ALIGNMENT, HEADER, MAX_BODY_BYTES, Frame

Parsed = TypeVar("Parsed")

INLINE_BYTES = 1 << 14
"""Tensors up to this size travel inside the frame: two copies through the socket cost less than a block."""
_INLINE_BYTES_PER_FRAME = 1 << 16
_TENSOR = struct.Struct("<HBQ")
"""Length of the descriptor, whether the bytes lie in this frame, their number. The descriptor follows."""
_IN_BLOCK, _IN_FRAME = 0, 1
_BLOCK = struct.Struct("<QQ")
"""Segment and offset: the data of a tensor in shared memory."""
_DESCRIPTOR = struct.Struct("<BBH")
"""Data type, number of dimensions, length of the name. The name and the dimensions follow."""
_REMEMBERED = 4096
_MOST_RECORD_BYTES = 1 << 13
"""Records longer than this are not remembered."""
_MOST_DESCRIPTOR_BYTES = 1 << 9
"""Nor are descriptors of tensors longer than this, with names that no model has."""
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
        self._encoded: dict[tuple[str, str, tuple[int, ...], int, int], bytes] = {}
        self._decoded: dict[bytes, Layout] = {}

    def encode(self, name: str, datatype: DataType, shape: tuple[int, ...], size: int, place: int) -> bytes:
        """The record of a tensor of `size` bytes, which lie at `place`: `_IN_FRAME` or `_IN_BLOCK`."""
        key = (name, datatype.wire_name, shape, size, place)
        found = self._encoded.get(key)
        if found is None:
            descriptor = _describe(name, datatype, shape)
            found = _TENSOR.pack(len(descriptor), place, size) + descriptor
            if len(descriptor) > _MOST_DESCRIPTOR_BYTES:
                return found
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
            if len(descriptor) > _MOST_DESCRIPTOR_BYTES:
                return found
            if len(self._decoded) >= _REMEMBERED:
                self._decoded.clear()
            self._decoded[descriptor] = found
        return found


def _describe(name: str, datatype: DataType, shape: tuple[int, ...]) -> bytes:
    raw = utf8_text(name).encode()
    if len(raw) > 0x7FFF or len(shape) > 0xFF:
        raise InternalError(f"tensor '{name[:64]}' has a name or a shape that is too long")
    fields = _DESCRIPTOR.pack(_TYPE_NUMBERS[datatype.wire_name], len(shape), len(raw))
    return fields + raw + struct.pack(f"<{len(shape)}q", *shape)


class Packer:
    """
    The body of one frame while it is written.

    `blocks` are those of the arena that it refers to; `copies` are blocks and what is still to be copied into them,
    by `copy`, before the frame may leave. Bytes that lie in one of `known` are not copied but referred to.
    """

    __slots__ = ("_arena", "_data", "_data_size", "_known", "_layouts", "_most", "_records", "blocks", "copies")

    def __init__(
        self, arena: Arena, layouts: LayoutCodec, known: Sequence[KnownRange] = (), most_bytes: int = MAX_BODY_BYTES
    ) -> None:
        """`most_bytes`: the longest body that the receiver takes."""
        self._most = most_bytes
        self._arena = arena
        self._layouts = layouts
        self._known = known
        self._records: list[bytes] = []
        self._data: list[bytes | memoryview] = []
        self._data_size = 0
        self.blocks: list[Block] = []
        self.copies: list[tuple[Block, bytes | memoryview]] = []

    def add(self, *records: bytes) -> None:
        self._records += records

    def add_data(self, data: bytes | memoryview) -> None:
        """Add bytes that differ from frame to frame."""
        self._add_data(data, len(data))

    def add_tensor(self, tensor: Tensor, shape: tuple[int, ...] | None = None) -> None:
        """Add a tensor, as if it had `shape` where one is given. Raises InternalError when memory is short."""
        data = tensor.buffer
        size = data.nbytes
        if shape is None:
            shape = tensor.shape
        if size <= INLINE_BYTES and self._data_size + size <= _INLINE_BYTES_PER_FRAME:
            self._records.append(self._layouts.encode(tensor.name, tensor.datatype, shape, size, _IN_FRAME))
            self._add_data(data, size)
        else:
            self._add_block(tensor.name, tensor.datatype, shape, data, size)

    def add_array(self, name: str, datatype: DataType, shape: tuple[int, ...], array: npt.NDArray[Any]) -> None:
        """`add_tensor` for one whose wire encoding is the memory of `array`, which is contiguous."""
        size = array.nbytes
        if size <= INLINE_BYTES and self._data_size + size <= _INLINE_BYTES_PER_FRAME:
            self._records.append(self._layouts.encode(name, datatype, shape, size, _IN_FRAME))
            self._add_data(array.tobytes(), size)
        else:
            self._add_block(name, datatype, shape, array.reshape(-1).view(np.uint8).data, size)

    def _add_block(self, name: str, datatype: DataType, shape: tuple[int, ...], data: memoryview, size: int) -> None:
        record = self._layouts.encode(name, datatype, shape, size, _IN_BLOCK)
        place = self._find_known(data, size) if self._known else None
        if place is None:
            block = self._arena.allocate(size)
            self.blocks.append(block)
            self.copies.append((block, data))
            place = block.segment.number, block.offset
        self._records.append(record)
        self._add_data(_BLOCK.pack(*place), _BLOCK.size)

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
        """The finished frame. Raises InternalError when it is too long."""
        records = b"".join(self._records)
        padding = _PADDING[-len(records) % ALIGNMENT]
        data_offset = len(records) + len(padding)
        size = data_offset + self._data_size
        if size > self._most:
            raise InternalError(f"a message of {size} bytes is too long")
        return b"".join((HEADER.pack(size, kind, flags, entry, number, data_offset), records, padding, *self._data))

    def _find_known(self, data: bytes | memoryview, size: int) -> tuple[int, int] | None:
        start = np.frombuffer(data, np.uint8).ctypes.data
        for known in self._known:
            if known.address <= start and start + size <= known.address + known.size:
                return known.segment, known.offset + start - known.address
        return None

    def _add_data(self, data: bytes | memoryview, size: int) -> None:
        self._data.append(data)
        padding = -size % ALIGNMENT
        if padding:
            self._data.append(_PADDING[padding])
        self._data_size += size + padding


View = Callable[[int, int, int], memoryview]
"""Bytes of a segment by its number, an offset and a size: `SegmentTable.view` or `SegmentTable.borrow`."""


class TensorPlace(NamedTuple):
    """A tensor in frames of one layout: `size` bytes at `begin` of the body, or of the block named there."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    begin: int
    size: int
    in_frame: int

    def data(self, body: memoryview, view: View) -> memoryview:
        """The tensor's bytes in a frame with this layout."""
        begin = self.begin
        if self.in_frame:
            return body[begin : begin + self.size]
        segment, offset = _BLOCK.unpack_from(body, begin)
        return view(segment, offset, self.size)

    def read(self, body: memoryview, view: View) -> Tensor:
        """The tensor in a frame with this layout."""
        return Tensor(self.name, self.datatype, self.shape, self.data(body, view))


class LayoutReader:
    """Reads a frame's records from front to back, and says where in the body their data lies."""

    __slots__ = ("_at", "_data_at", "_end", "_layouts", "_records")

    def __init__(self, records: bytes, layouts: LayoutCodec) -> None:
        self._records = records
        self._layouts = layouts
        self._at = 0
        self._data_at = self._end = len(records)

    def unpack(self, record: struct.Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = record.unpack_from(self._records, self._at)
        self._at += record.size
        return values

    def take(self, size: int) -> bytes:
        begin = self._at
        self._at = begin + size
        return self._records[begin : begin + size]

    @property
    def end(self) -> int:
        """How long the body must be at least for what was read."""
        return self._end

    def data(self, size: int) -> slice:
        """Where the next piece of data lies, which has `size` bytes."""
        begin = self._data_at
        self._end = begin + size
        self._data_at = begin + size + -size % ALIGNMENT
        return slice(begin, begin + size)

    def tensor(self) -> TensorPlace:
        length, in_frame, size = self.unpack(_TENSOR)
        name, datatype, shape = self._layouts.decode(self.take(length))
        begin = self.data(size if in_frame else _BLOCK.size).start
        return TensorPlace(name, datatype, shape, begin, size, in_frame)


class LayoutMemory(Generic[Parsed]):
    """What `parse` makes of records, for those that came lately."""

    __slots__ = ("_known", "_layouts", "_parse", "_room")

    def __init__(self, layouts: LayoutCodec, parse: Callable[[LayoutReader], Parsed]) -> None:
        self._layouts = layouts
        self._parse = parse
        self._known: dict[tuple[int, bytes], tuple[list[Parsed], int]] = {}
        self._room = _REMEMBERED

    def find(self, frame: Frame, count: int) -> list[Parsed]:
        """The layouts of the `count` requests or responses in a frame. Raises InternalError when its body is short."""
        body = frame.body
        records = bytes(body[: frame.data_offset])
        found, size = self._known.get((count, records)) or self._read(records, count)
        if size > len(body):
            raise InternalError(f"malformed frame: a body of {len(body)} bytes, expected at least {size}")
        return found

    def _read(self, records: bytes, count: int) -> tuple[list[Parsed], int]:
        reader = LayoutReader(records, self._layouts)
        found = [self._parse(reader) for _ in range(count)], reader.end
        if len(records) <= _MOST_RECORD_BYTES:
            self._room -= count + 1
            if self._room < 0:
                self._known.clear()
                self._room = _REMEMBERED
            self._known[count, records] = found
        return found
