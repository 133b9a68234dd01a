"""Batches as the engine makes them, for tests of backends: built from arrays, answered into a list."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from charonia_runtime.core.batch import Answers, Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, RequestedOutput
from charonia_runtime.core.tensor import Tensor

Arrays = Mapping[str, np.ndarray[Any, Any]]


class NoSink:
    """The sink of requests whose answers are taken from the batch."""

    def send(self, response: InferenceResponse) -> None:
        raise AssertionError("answers of a batch go through its deliver function")


class RecordedBatch(Batch):
    """A batch that keeps what it delivers."""

    __slots__ = ("answers",)

    def __init__(self, config: ModelConfig, requests: Sequence[InferenceRequest], version: int = 1) -> None:
        self.answers: Answers = []
        super().__init__(config, version, requests, self.answers.extend)

    def responses_to(self, index: int) -> list[InferenceResponse]:
        """What request `index` got."""
        return [response for request, response in self.answers if request is self.requests[index]]

    def arrays_of(self, index: int) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs of the only response to request `index`, which must carry no error."""
        (response,) = self.responses_to(index)
        if response.error is not None:
            raise response.error
        assert response.final
        return {tensor.name: tensor.as_numpy() for tensor in response.outputs}


def a_batch(config: ModelConfig, *inputs: Arrays, outputs: Sequence[str] = ()) -> RecordedBatch:
    """A batch of one request for each of `inputs`, all asking for `outputs` (all of them when empty)."""
    return RecordedBatch(config, [a_request(config, arrays, outputs=outputs) for arrays in inputs])


def a_request(config: ModelConfig, arrays: Arrays, *, outputs: Sequence[str] = ()) -> InferenceRequest:
    """A request as the engine's checks leave it."""
    tensors = {name: _tensor(config, name, array) for name, array in arrays.items()}
    rows = next(iter(tensors.values())).shape[0] if config.batches else 1
    return InferenceRequest(
        config.name, tensors, NoSink(), outputs=[RequestedOutput(name) for name in outputs], batch_size=rows
    )


def _tensor(config: ModelConfig, name: str, array: np.ndarray[Any, Any]) -> Tensor:
    spec = config.input(name)
    bits = spec is not None and spec.datatype is DataType.BF16
    tensor = Tensor.from_numpy(name, array, DataType.BF16 if bits else None)
    # What comes from a wire is read-only.
    return Tensor(name, tensor.datatype, tensor.shape, memoryview(bytes(tensor.buffer)))
