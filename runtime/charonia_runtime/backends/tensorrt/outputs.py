"""Outputs whose shapes depend on data: the engine says how much memory it needs while it runs."""

from typing import Any

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.cuda.memory import Block, MemoryPool


def make_allocator(library: Any, pool: MemoryPool) -> Any:
    """
    A `tensorrt.IOutputAllocator` for one output of one context.

    After an execution `block` holds the output and `shape` is its shape; `take` hands the block over and forgets both.
    """

    class Allocator(library.IOutputAllocator):  # type: ignore[misc]  # the base is known at run time only
        def __init__(self) -> None:
            library.IOutputAllocator.__init__(self)
            self.block: Block | None = None
            self.shape: tuple[int, ...] = ()

        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:  # noqa: ARG002
            """An address, or 0 where there is no memory: the engine then fails with an error of its own."""
            try:
                if self.block is None or self.block.size < size:
                    self.block = pool.take(size)
            except InferenceError:
                return 0
            return self.block.address

        def reallocate_output_async(
            self,
            tensor_name: str,
            memory: int,
            size: int,
            alignment: int,
            stream: int,  # noqa: ARG002
        ) -> int:
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:  # noqa: ARG002
            self.shape = tuple(shape)

        def take(self) -> tuple[Block, tuple[int, ...]]:
            block, self.block = self.block, None
            return block if block is not None else pool.take(0), self.shape

    return Allocator()
