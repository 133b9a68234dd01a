"""Blocks of memory that are used again: allocating pinned or device memory anew costs more than most executions."""

import logging
import sys
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.cuda.runtime import Cuda

logger = logging.getLogger(__name__)

_SMALLEST: Final = 256
"""What CUDA aligns its allocations to."""
_KEPT_BLOCKS: Final = 32
"""Unused blocks of one size that a pool holds on to, at most."""
_KEPT_BYTES: Final = 256 << 20
"""The same in bytes, where blocks are large; one is kept in any case."""


class Block:
    """
    `size` bytes at `address`, of at least as many as were asked for; back in its pool once nobody knows it any more.

    numpy sees pinned memory as bytes: `np.asarray(block)` keeps it alive.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_pool", "address", "size")

    def __init__(self, pool: "MemoryPool", address: int, size: int) -> None:
        self._pool = pool
        self.address = address
        self.size = size
        if pool.on_host:
            self.__array_interface__: dict[str, Any] = {
                "version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False),
            }  # fmt: skip

    def __del__(self) -> None:
        self._pool.take_back(self.address, self.size)


class MemoryPool:
    """
    Gives out blocks of one kind of memory and takes them back from any thread, whenever they are collected.

    `allocate` and `free` are the kind's own. There is no lock: blocks come back in the middle of anything.
    """

    def __init__(self, allocate: Callable[[int], int], free: Callable[[int], None], *, on_host: bool) -> None:
        self.on_host = on_host
        self._allocate = allocate
        self._free = free
        self._unused: defaultdict[int, deque[int]] = defaultdict(deque)
        self._closed = False

    @classmethod
    def of_pinned_memory(cls, cuda: Cuda) -> "MemoryPool":
        return cls(cuda.allocate_pinned, cuda.free_pinned, on_host=True)

    @classmethod
    def of_device(cls, cuda: Cuda, device_id: int) -> "MemoryPool":
        """The memory of one GPU, which must be the device of the thread that takes blocks."""

        def allocate(size: int) -> int:
            cuda.use(device_id)
            return cuda.allocate(size)

        return cls(allocate, cuda.free, on_host=False)

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes, whatever they hold. Raises InternalError when there is no memory."""
        rounded = _rounded(size)
        try:
            address = self._unused[rounded].pop()
        except IndexError:
            try:
                address = self._allocate(rounded)
            except InferenceError:
                if not self._release_unused():
                    raise
                address = self._allocate(rounded)
        return Block(self, address, rounded)

    def take_back(self, address: int, size: int) -> None:
        """Called by blocks alone, when they are collected."""
        unused = self._unused[size]
        if self._closed or len(unused) >= max(1, min(_KEPT_BLOCKS, _KEPT_BYTES // size)):
            self._release(address)
        else:
            unused.append(address)

    def close(self) -> None:
        """Free what is unused now, and the rest when it comes back."""
        self._closed = True
        self._release_unused()

    def _release_unused(self) -> bool:
        """Whether there was anything."""
        found = False
        for unused in list(self._unused.values()):
            while unused:
                found = True
                self._release(unused.pop())
        return found

    def _release(self, address: int) -> None:
        if sys.is_finalizing():
            return  # the driver ends with the process, and frees everything
        try:
            self._free(address)
        except InferenceError as error:
            logger.warning("memory at %#x was not freed: %s", address, error)


def _rounded(size: int) -> int:
    """`size` or up to a quarter more, so that sizes that differ little share their blocks."""
    if size <= _SMALLEST:
        return _SMALLEST
    step = 1 << max((size - 1).bit_length() - 3, 8)
    return -(-size // step) * step
