"""What a plan says of itself, in values: tensors with types and shapes, optimisation profiles with their ranges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from charonia_runtime.backends.tensorrt.library import datatype_of
from charonia_runtime.core.datatypes import DataType


@dataclass(frozen=True, slots=True)
class Range:
    """What one profile allows of a tensor, and what it was tuned for: sizes, or the values of a shape tensor."""

    minimum: tuple[int, ...]
    optimum: tuple[int, ...]
    maximum: tuple[int, ...]

    def misfit(self, numbers: Sequence[int]) -> int | None:
        """The index of the first number that is out of range; None where all fit. There are as many as here."""
        for index, (low, number, high) in enumerate(zip(self.minimum, numbers, self.maximum, strict=True)):
            if not low <= number <= high:
                return index
        return None

    def distance(self, numbers: Sequence[int]) -> int:
        """How far they are from what the profile was tuned for (Manhattan)."""
        return sum(abs(number - best) for number, best in zip(numbers, self.optimum, strict=True))


@dataclass(frozen=True, slots=True)
class EngineTensor:
    """An input or an output. -1 in `shape` is a size that each execution chooses."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    is_input: bool
    is_shape_tensor: bool = False
    """Whether its values decide shapes."""
    on_host: bool = False
    """Whether the engine wants it in the host's memory, as it does with shape tensors."""
    is_linear: bool = True
    """Whether its elements lie one after the other, as everybody has them."""
    vector_axis: int = -1
    """The dimension along which elements come in vectors of `vector_length`, where a format has such; else -1."""
    vector_length: int = 1
    shapes: tuple[Range, ...] = ()
    """Of an input, by profile."""
    values: tuple[Range, ...] = ()
    """Of an input that is a shape tensor, by profile."""

    @property
    def may_be_padded(self) -> bool:
        """Whether the engine's format takes more memory than the elements."""
        return self.vector_length > 1 and (
            self.shape[self.vector_axis] == -1 or self.shape[self.vector_axis] % self.vector_length != 0
        )

    def largest_batch(self, profile: int) -> int:
        """Of an input: how many rows the profile allows."""
        ranges = self.values if self.is_shape_tensor else self.shapes
        maximum = ranges[profile].maximum if ranges else self.shape
        return maximum[0] if maximum else 0


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """All tensors in the engine's order, and the number of its profiles."""

    tensors: tuple[EngineTensor, ...]
    profile_count: int

    @property
    def inputs(self) -> dict[str, EngineTensor]:
        return {tensor.name: tensor for tensor in self.tensors if tensor.is_input}

    @property
    def outputs(self) -> dict[str, EngineTensor]:
        return {tensor.name: tensor for tensor in self.tensors if not tensor.is_input}

    def largest_batch(self, profiles: Sequence[int]) -> int:
        """The most rows that one of `profiles` takes; 0 where the engine does not batch, 1 where it is fixed to one."""
        inputs = [tensor for tensor in self.tensors if tensor.is_input]
        leading = {tensor.shape[:1] for tensor in self.tensors if not tensor.is_shape_tensor}
        if inputs and leading == {(-1,)}:
            return max(min(tensor.largest_batch(profile) for tensor in inputs) for profile in profiles)
        return 1 if leading == {(1,)} else 0


def describe(library: Any, engine: Any) -> EngineDescription:
    """Ask an `ICudaEngine` for everything."""
    return EngineDescription(tuple(_tensors(library, engine)), engine.num_optimization_profiles)


def _tensors(library: Any, engine: Any) -> Iterator[EngineTensor]:
    profiles = range(engine.num_optimization_profiles)
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        is_input = engine.get_tensor_mode(name) == library.TensorIOMode.INPUT
        is_shape_tensor = engine.is_shape_inference_io(name)
        linear = engine.get_tensor_format(name) == library.TensorFormat.LINEAR
        yield EngineTensor(
            name,
            datatype_of(engine.get_tensor_dtype(name)),
            tuple(engine.get_tensor_shape(name)),
            is_input,
            is_shape_tensor,
            on_host=engine.get_tensor_location(name) == library.TensorLocation.HOST,
            is_linear=linear,
            vector_axis=engine.get_tensor_vectorized_dim(name),
            vector_length=max(engine.get_tensor_components_per_element(name), 1),
            shapes=tuple(_range(engine.get_tensor_profile_shape(name, profile)) for profile in profiles)
            if is_input
            else (),
            # The bindings take the profile first here, though they call it the name.
            values=tuple(_range(engine.get_tensor_profile_values(profile, name)) for profile in profiles)
            if is_input and is_shape_tensor
            else (),
        )


def _range(three: Sequence[Sequence[int]]) -> Range:
    """From minimum, optimum and maximum; empty where the profile says nothing."""
    if not three:
        return Range((), (), ())
    minimum, optimum, maximum = three
    return Range(tuple(minimum), tuple(optimum), tuple(maximum))
