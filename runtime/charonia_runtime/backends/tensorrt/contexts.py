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

Numbers = Mapping[str, tuple[int, ...]]
"""By input: its sizes, or the values of a shape tensor."""
OutputShapes = Mapping[str, tuple[int, ...] | None]


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
        self._outputs = tuple(description.outputs)
        self._context = make_context(library, engine, strategy)
        if not self._context.set_optimization_profile_async(profile, stream):
            raise InternalError(
                f"Can not set the specified optimization profile {profile} for {instance}: {self._log.last_error}"
            )
        cuda.wait(stream)
        self._make_allocator = partial(make_allocator, library, pool)
        self.allocators: dict[str, Any] = {}
        """Of the outputs whose shapes depend on data."""
        self._prepared: tuple[Numbers, Numbers] | None = None
        self._output_shapes: dict[str, tuple[int, ...] | None] = {}
        self._addresses: dict[str, int] = {}

    def prepare(self, shapes: Numbers, values: Numbers, addresses: Mapping[str, int]) -> OutputShapes:
        """
        Where the inputs lie, and how large they are; those of shape tensors must hold `values` already.

        The shapes of the outputs; None for one that will be known only when the engine has run. Executions like the
        last one cost nothing. Raises InternalError where the engine wants something else.
        """
        if self._prepared == (shapes, values):
            for name, address in addresses.items():
                self.set_address(name, address)
            return self._output_shapes
        self._prepared = None
        for name, shape in shapes.items():
            if not self._context.set_input_shape(name, shape):
                raise InternalError(
                    f"failed to set the shape of input '{name}' for {self._instance}: {self._log.last_error}"
                )
            self.set_address(name, addresses[name])
        self._infer_shapes()
        self._output_shapes = {name: self._output_shape(name) for name in self._outputs}
        self._prepared = (dict(shapes), dict(values))
        return self._output_shapes

    def set_address(self, name: str, address: int) -> None:
        """Where the engine finds an input, or leaves an output."""
        if self._addresses.get(name) == address:
            return
        if not self._context.set_tensor_address(name, address):
            raise InternalError(f"failed to set the address of '{name}' for {self._instance}: {self._log.last_error}")
        self._addresses[name] = address

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

    def _infer_shapes(self) -> None:
        try:
            missing = self._context.infer_shapes()
        except RuntimeError as error:
            raise InternalError(f"failed to infer the shapes of {self._instance}: {self._log.last_error}") from error
        if missing:
            raise InternalError(
                "failed to specify the dimensions of all input tensors or values of all input shape tensors: "
                f"{', '.join(missing)}"
            )

    def _output_shape(self, name: str) -> tuple[int, ...] | None:
        shape = tuple(self._context.get_tensor_shape(name))
        return None if any(size < 0 for size in shape) else shape
