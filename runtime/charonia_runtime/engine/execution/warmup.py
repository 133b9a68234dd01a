"""Warm-up: requests that every instance executes before it serves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import randbytes

from charonia_runtime.core.config import ModelConfig, WarmupData, WarmupInput, WarmupSample
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import Tensor, rank_mistake
from charonia_runtime.engine.execution.admission import Admission
from charonia_runtime.engine.execution.model_paths import read_model_file

_PREFIX = "[request id: <id_unknown>] "
_EMPTY_STRING_BYTES = 4


@dataclass(frozen=True, slots=True)
class Warmup:
    """One sample with its data."""

    sample: WarmupSample
    inputs: Mapping[str, Tensor]


class _Sink:
    """Collects the errors of one request and tells when its final response has come."""

    __slots__ = ("_done", "_errors")

    def __init__(self) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._errors: list[InferenceError] = []

    def send(self, response: InferenceResponse) -> None:
        if response.error is not None:
            self._errors.append(response.error)
        if response.final:
            self._done.set_result(None)

    async def errors(self) -> list[InferenceError]:
        await self._done
        return self._errors


def read_warmups(config: ModelConfig, directory: Path) -> tuple[Warmup, ...]:
    """The samples of `config` with their data, files from `<directory>/warmup` included. Raises InferenceError."""
    return tuple(
        Warmup(sample, {name: _make_tensor(config, name, given, directory) for name, given in sample.inputs.items()})
        for sample in config.warmup
        if sample.batch_size
    )


async def run_warmup(
    warmup: Warmup,
    config: ModelConfig,
    instance_name: str,
    execute: Callable[[list[InferenceRequest]], Awaitable[None]],
) -> None:
    """
    Run one sample as often as it says.

    `execute` has one instance execute requests together and returns when it is free again. Raises InferenceError with
    Triton's text when the sample does not fit the model or any answer is an error.
    """
    sample = warmup.sample
    for _ in range(max(1, sample.count)):
        sinks = [_Sink() for _ in range(sample.batch_size)]
        requests = [_make_request(config, warmup.inputs, sink) for sink in sinks]
        if sample.batch_size > max(1, config.max_batch_size):
            text = f"batch size {sample.batch_size} for '{instance_name}', max allowed is {config.max_batch_size}; "
            raise _failure(sample, text * sample.batch_size)
        await execute(requests)
        errors = [error for sink in sinks for error in await sink.errors()]
        if errors:
            raise _failure(sample, "".join(f"{error.message}; " for error in errors))


def _failure(sample: WarmupSample, texts: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"failed to run warmup sample '{sample.name}': {texts}")


def _make_request(config: ModelConfig, inputs: Mapping[str, Tensor], sink: _Sink) -> InferenceRequest:
    """A request that has passed the checks. Control tensors and states are no inputs of clients, but may be given."""
    request = InferenceRequest(config.name, {n: t for n, t in inputs.items() if config.input(n) is not None}, sink)
    Admission(config).check(request)
    request.inputs = dict(inputs)
    return request


def _make_tensor(config: ModelConfig, name: str, given: WarmupInput, directory: Path) -> Tensor:
    if given.data is None:
        raise InvalidArgumentError(f"{_PREFIX}warmup setting expects input '{name}' to have input_data_type set")
    mistake = rank_mistake(given.dims)
    if mistake:
        raise InvalidArgumentError(f"{_PREFIX}warmup input '{name}' {mistake}")
    if any(dim < 0 for dim in given.dims):
        raise InvalidArgumentError(
            f"warmup setting expects all variable-size dimensions are specified for input '{name}'"
        )
    shape = (1, *given.dims) if config.batches else given.dims
    tensor = Tensor(name, given.datatype, shape, memoryview(b""))
    size = tensor.element_count * (given.datatype.item_size or _EMPTY_STRING_BYTES)
    tensor.data = memoryview(_make_data(given, size, directory))
    return tensor


def _make_data(given: WarmupInput, size: int, directory: Path) -> bytes:
    if given.data is WarmupData.RANDOM and given.datatype is not DataType.BYTES:
        return randbytes(size)  # noqa: S311 - any bytes will do
    if not isinstance(given.data, str):
        return bytes(size)
    data = read_model_file(directory / "warmup", given.data, "input_data_file")
    if given.datatype is DataType.BYTES:
        return data
    if len(data) < size:
        raise InvalidArgumentError(
            f"{_PREFIX}warmup setting expects {size} bytes, but the data provided from {given.data}only has "
            f"{len(data)} bytes"
        )
    return data[:size]
