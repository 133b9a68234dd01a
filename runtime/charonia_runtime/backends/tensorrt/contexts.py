"""An execution context bound to one optimisation profile of its engine."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from charonia_runtime.backends.tensorrt.engine import EngineDescription
from charonia_runtime.backends.tensorrt.library import log_of, make_context
from charonia_runtime.backends.tensorrt.outputs import make_allocator
from charonia_runtime.core.errors import InternalError
from charonia_runtime.cuda.memory import MemoryPool
from charonia_runtime.cuda.runtime import Cuda, Stream


class ProfileContext:
    """Takes shapes and addresses, and puts executions into its stream. Used by one thread at a time."""

    def __init__(
        self,
        library: Any,
        engine: Any,
        description: EngineDescription,
        *,
        profile: int,
        strategy: str,
        cuda: Cuda,
        stream: Stream,
        pool: MemoryPool,
        instance: str,
    ) -> None:
        """Raises InternalError with TensorRT's text."""
        self._log = log_of(library)
        self._instance = instance
        self._stream = stream
        self._description = description
        self._context = make_context(library, engine, strategy)
        if not self._context.set_optimization_profile_async(profile, stream):
            raise InternalError(
                f"Can not set the specified optimization profile {profile} for {instance}: {self._log.last_error}"
            )
        cuda.wait(stream)
        self._make_allocator = partial(make_allocator, library, pool)
        self.allocators: dict[str, Any] = {}
        """Of the outputs whose shapes depend on data."""

    def set_inputs(self, shapes: Mapping[str, tuple[int, ...]], addresses: Mapping[str, int]) -> None:
        """
        Where the inputs lie, and how large they are. Those of shape tensors must be filled already.

        Raises InternalError where the engine wants something else.
        """
        context = self._context
        for name, shape in shapes.items():
            if not context.set_input_shape(name, shape):
                raise InternalError(
                    f"failed to set the shape of input '{name}' for {self._instance}: {self._log.last_error}"
                )
            self.set_address(name, addresses[name])
        try:
            missing = context.infer_shapes()
        except RuntimeError as error:
            raise InternalError(f"failed to infer the shapes of {self._instance}: {self._log.last_error}") from error
        if missing:
            raise InternalError(
                "failed to specify the dimensions of all input tensors or values of all input shape tensors: "
                f"{', '.join(missing)}"
            )

    def output_shape(self, name: str) -> tuple[int, ...] | None:
        """After `set_inputs`; None for one that will be known only when the engine has run."""
        shape = tuple(self._context.get_tensor_shape(name))
        return None if any(size < 0 for size in shape) else shape

    def set_address(self, name: str, address: int) -> None:
        if not self._context.set_tensor_address(name, address):
            raise InternalError(f"failed to set the address of '{name}' for {self._instance}: {self._log.last_error}")

    def allocate_later(self, name: str) -> None:
        """Let the engine ask for the memory of output `name`."""
        if name not in self.allocators:
            allocator = self._make_allocator()
            if not self._context.set_output_allocator(name, allocator):
                raise InternalError(f"failed to set the allocator of '{name}' for {self._instance}")
            self.allocators[name] = allocator

    def enqueue(self) -> None:
        """Put an execution into the stream. Raises InternalError with TensorRT's text."""
        if not self._context.execute_async_v3(self._stream):
            raise InternalError(f"unable to enqueue for inference {self._instance}: {self._log.last_error}")
