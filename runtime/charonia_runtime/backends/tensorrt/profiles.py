"""Which optimisation profile takes a batch, and what is wrong where none does."""

from collections.abc import Mapping, Sequence

from charonia_runtime.backends.tensorrt.engine import EngineDescription, EngineTensor
from charonia_runtime.core.errors import InvalidArgumentError

Numbers = Mapping[str, Sequence[int]]
"""By input: its sizes, or the values of a shape tensor."""


def profile_indexes(names: Sequence[str], count: int, instance: str) -> tuple[int, ...]:
    """
    The profiles that an instance group names; the first one where it names none.

    Raises InvalidArgumentError for one that the engine does not have.
    """
    indexes = tuple(int(name) for name in names) or (0,)
    for position, index in enumerate(indexes):
        if index >= count:
            raise InvalidArgumentError(
                f"Can not set the specified optimization profile {index}[{position}] for {instance}. Expected "
                f"optimization profile index range 0-{count - 1}"
            )
    return indexes


def choose_profile(engine: EngineDescription, profiles: Sequence[int], shapes: Numbers, values: Numbers) -> int:
    """Of those that take the batch the one that was tuned for the likest; the first one where none takes it."""
    if len(profiles) == 1:
        return profiles[0]
    fitting = [profile for profile in profiles if _misfit(engine, profile, shapes, values) is None]
    return min(fitting, key=lambda profile: _distance(engine, profile, shapes, values), default=profiles[0])


def check_profile(engine: EngineDescription, profile: int, shapes: Numbers, values: Numbers, instance: str) -> None:
    """Raises InvalidArgumentError for the first size or value that the profile does not allow."""
    found = _misfit(engine, profile, shapes, values)
    if found is None:
        return
    tensor, index = found
    is_value = tensor.is_shape_tensor
    allowed = (tensor.values if is_value else tensor.shapes)[profile]
    received = (values if is_value else shapes)[tensor.name]
    subject = f"request specifies invalid {'value for shape tensor' if is_value else 'shape for'} input"
    problem = (
        f"model expected the {'value' if is_value else 'shape of dimension'} {index} to be between "
        f"{allowed.minimum[index]} and {allowed.maximum[index]} but received {received[index]}"
        if index < len(received) == len(allowed.minimum)
        else f"model expected {len(allowed.minimum)} {'values' if is_value else 'dimensions'} but received "
        f"{len(received)}"
    )
    raise InvalidArgumentError(f"{subject} '{tensor.name}' for {instance}. Error details: {problem}")


def _misfit(
    engine: EngineDescription, profile: int, shapes: Numbers, values: Numbers
) -> tuple[EngineTensor, int] | None:
    for tensor in engine.tensors:
        if not tensor.is_input:
            continue
        ranges, numbers = (tensor.values, values) if tensor.is_shape_tensor else (tensor.shapes, shapes)
        given = numbers[tensor.name]
        if not ranges or not ranges[profile].maximum:
            continue
        if len(given) != len(ranges[profile].maximum):
            return tensor, len(given)
        index = ranges[profile].misfit(given)
        if index is not None:
            return tensor, index
    return None


def _distance(engine: EngineDescription, profile: int, shapes: Numbers, values: Numbers) -> int:
    return sum(
        (tensor.values if tensor.is_shape_tensor else tensor.shapes)[profile].distance(
            (values if tensor.is_shape_tensor else shapes)[tensor.name]
        )
        for tensor in engine.tensors
        if tensor.is_input and (tensor.values if tensor.is_shape_tensor else tensor.shapes)
    )
