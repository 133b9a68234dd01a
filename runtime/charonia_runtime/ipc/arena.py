"""Blocks of shared memory that one end of a channel hands out: a first-fit allocator that grows by whole segments."""

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator

from charonia_runtime.core.errors import InternalError
from charonia_runtime.ipc.segments import (
    BLOCK_HEADER_BYTES,
    LENT,
    RELEASED,
    Segment,
    SegmentTable,
    create_segment_file,
)

_UNIT = 64
"""Blocks are multiples of this and begin at multiples of it: a cache line, and enough for any vector load."""
_IDLE_BYTES = 64 << 20
"""The largest empty segment that is kept for the next large tensor."""


class FreeSpace:
    """Which bytes between `start` and `end` are free. Neighbouring free ranges are always joined."""

    __slots__ = ("_ends", "_starts", "size")

    def __init__(self, start: int, end: int) -> None:
        self._starts = [start]
        self._ends = [end]
        self.size = end - start

    def take(self, size: int) -> int | None:
        """Offset of `size` bytes that are no longer free; None when no free range is that long."""
        for index, start in enumerate(self._starts):
            if self._ends[index] - start >= size:
                if self._ends[index] - start == size:
                    del self._starts[index], self._ends[index]
                else:
                    self._starts[index] = start + size
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Make bytes that were taken free again."""
        index = bisect_left(self._starts, start)
        end = start + size
        joins_before = index > 0 and self._ends[index - 1] == start
        joins_after = index < len(self._starts) and self._starts[index] == end
        if joins_before and joins_after:
            self._ends[index - 1] = self._ends[index]
            del self._starts[index], self._ends[index]
        elif joins_before:
            self._ends[index - 1] = end
        elif joins_after:
            self._starts[index] = start
        else:
            self._starts.insert(index, start)
            self._ends.insert(index, end)

    @property
    def free(self) -> int:
        """Free bytes in all."""
        return sum(self._ends) - sum(self._starts)


class Block:
    """`size` bytes at `offset` of a segment, and the `span` of the allocator that they occupy with their header."""

    __slots__ = ("offset", "pool", "size", "span")

    def __init__(self, pool: "_Pool", start: int, size: int, span: int) -> None:
        self.pool = pool
        self.offset = start + BLOCK_HEADER_BYTES
        self.size = size
        self.span = span

    @property
    def segment(self) -> Segment:
        return self.pool.segment

    @property
    def view(self) -> memoryview:
        return self.segment.view[self.offset : self.offset + self.size]

    @property
    def released(self) -> bool:
        """Whether the peer has given the block back."""
        return bool(self.segment.view[self.offset - BLOCK_HEADER_BYTES] == RELEASED)


class _Pool:
    __slots__ = ("segment", "space")

    def __init__(self, segment: Segment, start: int, end: int) -> None:
        self.segment = segment
        self.space = FreeSpace(start, end)

    @property
    def empty(self) -> bool:
        return self.space.free == self.space.size


class Arena:
    """
    The blocks that this end of the channel hands out. Used by one thread at a time.

    Begins with a part of the first segment, which both ends share, and grows by segments of at least `growth_bytes`.
    `announce(segment number, descriptor, size)` tells the peer of a new segment before any block of it is used,
    `retract(segment number)` that one is gone. `numbers` are those of its segments.
    """

    def __init__(
        self,
        name: str,
        segments: SegmentTable,
        *,
        first: Segment,
        part: tuple[int, int],
        numbers: Iterator[int],
        growth_bytes: int,
        announce: Callable[[int, int, int], None],
        retract: Callable[[int], object],
    ) -> None:
        self._name = name
        self._segments = segments
        self._pools = [_Pool(first, *part)]
        self._numbers = numbers
        self._growth_bytes = growth_bytes
        self._announce = announce
        self._retract = retract
        self._lent: deque[Block] = deque()

    def allocate(self, size: int) -> Block:
        """A block for `size` bytes. Raises InternalError, with the figure needed, when there is no memory for it."""
        self._collect()
        span = BLOCK_HEADER_BYTES + max(-(-size // _UNIT) * _UNIT, _UNIT)
        block = self._take(size, span)
        if block is None and self._lent:
            self._collect_all()
            block = self._take(size, span)
        if block is None:
            self._grow(span)
            block = self._take(size, span)
        if block is None:  # pragma: no cover  # the new segment has room for it
            raise InternalError(f"no room for {size} bytes in shared memory")
        block.segment.view[block.offset - BLOCK_HEADER_BYTES] = LENT
        return block

    def lend(self, block: Block) -> None:
        """Leave a block to the peer, which gives it back through its flag."""
        self._lent.append(block)

    def collect(self) -> None:
        """Free what the peer has given back, in whatever order."""
        self._collect_all()

    def free(self, block: Block) -> None:
        """Take back a block that was not lent."""
        pool = block.pool
        pool.space.give(block.offset - BLOCK_HEADER_BYTES, block.span)
        if pool is not self._pools[0] and pool.empty:
            self._shrink()

    @property
    def byte_size(self) -> int:
        """Bytes of all its segments, used or not."""
        return sum(pool.space.size for pool in self._pools)

    @property
    def free_bytes(self) -> int:
        """Bytes that no block occupies."""
        self._collect_all()
        return sum(pool.space.free for pool in self._pools)

    def _take(self, size: int, span: int) -> Block | None:
        for pool in self._pools:
            start = pool.space.take(span)
            if start is not None:
                return Block(pool, start, size, span)
        return None

    def _collect(self) -> None:
        """Free what the peer has given back, as far as it did so in order."""
        lent = self._lent
        while lent and lent[0].released:
            self.free(lent.popleft())

    def _collect_all(self) -> None:
        blocks, self._lent = self._lent, deque()
        for block in blocks:
            if block.released:
                self.free(block)
            else:
                self._lent.append(block)

    def _grow(self, span: int) -> None:
        least = max(-(-span // self._growth_bytes) * self._growth_bytes, self._growth_bytes)
        for size in (max(least, self.byte_size), least):
            try:
                descriptor = create_segment_file(size)
            except OSError as error:
                if size > least:
                    continue
                raise InternalError(
                    f"Failed to increase the shared memory pool size for key '{self._name}' to "
                    f"{self.byte_size + size} bytes. If you are running Triton inside docker, use '--shm-size' flag to "
                    f"control the shared memory region size. Error: {error.strerror}"
                ) from error
            number = next(self._numbers)
            try:
                self._announce(number, descriptor, size)
            except OSError as error:
                os.close(descriptor)
                raise InternalError(f"a new segment of shared memory cannot be announced: {error.strerror}") from None
            self._pools.append(_Pool(self._segments.add(number, descriptor, size), 0, size))
            return

    def _shrink(self) -> None:
        """Keep at most one empty segment besides the first, the largest that is not too large."""
        empty = [pool for pool in self._pools[1:] if pool.empty]
        kept = max((pool for pool in empty if pool.space.size <= _IDLE_BYTES), key=_pool_size, default=None)
        for pool in empty:
            if pool is not kept:
                self._pools.remove(pool)
                self._segments.remove(pool.segment.number)
                self._retract(pool.segment.number)


def _pool_size(pool: _Pool) -> int:
    return pool.space.size
