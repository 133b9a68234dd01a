"""Memory of one tensor that an instance keeps between executions: inputs on their way to the GPU, outputs there."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.cuda.memory import Block, MemoryPool
from charonia_runtime.cuda.runtime import Cuda, Stream

_ALIGNMENT: Final = 256
"""What TensorRT wants of every address."""


class InputMemory:
    """
    An input's bytes on the host, pinned, and on the GPU. Both grow to the largest batch that came.

    They belong to one execution until its stream was waited for.
    """

    __slots__ = ("_block", "_cuda", "_device_id", "_device_pool", "_pinned_pool", "_staged", "_staging")

    def __init__(self, cuda: Cuda, device_id: int, pinned_pool: MemoryPool, device_pool: MemoryPool) -> None:
        self._cuda = cuda
        self._device_id = device_id
        self._pinned_pool = pinned_pool
        self._device_pool = device_pool
        self._block: Block | None = None
        self._staging: Block | None = None
        self._staged = memoryview(b"")

    def place(
        self, buffers: Sequence[memoryview | DeviceBuffer], size: int, stream: Stream, *, own_address: bool
    ) -> int:
        """
        Where the GPU finds `buffers`, one after the other, in the stream's turn.

        There is room for `size` bytes. A single buffer on the same GPU is not copied, unless the input must have an
        address of its own.
        """
        first = buffers[0]
        if len(buffers) == 1 and not own_address and isinstance(first, DeviceBuffer) and self._is_usable(first):
            return first.address
        if self._block is None or self._block.size < size:
            self._block = self._device_pool.take(size)
        target = self._block.address
        at = copied = 0
        for buffer in buffers:
            end = at + buffer.nbytes
            if isinstance(buffer, DeviceBuffer):
                self._send(target, copied, at, stream)
                if buffer.nbytes:
                    self._cuda.copy(target + at, buffer.address, buffer.nbytes, stream)
                copied = end
            else:
                self._stage(size)[at:end] = buffer
            at = end
        self._send(target, copied, at, stream)
        return target

    def _is_usable(self, buffer: DeviceBuffer) -> bool:
        return buffer.device_id == self._device_id and buffer.nbytes > 0 and buffer.address % _ALIGNMENT == 0

    def _stage(self, size: int) -> memoryview:
        if self._staging is None or self._staging.size < size:
            self._staging = self._pinned_pool.take(size)
            self._staged = np.asarray(self._staging).data
        return self._staged

    def _send(self, target: int, start: int, end: int, stream: Stream) -> None:
        """Copy what was staged from `start` to `end`."""
        if end > start and self._staging is not None:
            self._cuda.copy(target + start, self._staging.address + start, end - start, stream)


class OutputMemory:
    """Where the engine writes an output of fixed or computed size. It may be given away with what it holds."""

    __slots__ = ("_block", "_pool")

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool
        self._block: Block | None = None

    def block(self, size: int) -> Block:
        """At least `size` bytes, the same as last time where they are enough."""
        if self._block is None or self._block.size < size:
            self._block = self._pool.take(size)
        return self._block

    def give_away(self, block: Block) -> Block:
        """`block` is somebody else's from now on."""
        if self._block is block:
            self._block = None
        return block
