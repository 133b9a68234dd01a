"""`shared_memory` of Triton's module: what models may ask about the memory that their tensors cross in."""

from charonia_runtime.stub.context import context


class SharedMemory:
    """The shared memory that this process hands out."""

    def free_memory(self) -> int:
        """Bytes that are free without growing."""
        return context.session.free_memory
