"""Requests that run together: inputs gathered along the batch axis, outputs scattered back, every request answered."""

import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, UnsupportedError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ParameterValue
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.core.tensor import Tensor

Answers = list[tuple[InferenceRequest, InferenceResponse]]
Deliver = Callable[[Answers], None]
"""Takes answers from the instance's thread to the requests' sinks; the engine provides it."""


class Batch:
    """
    One execution's requests. Owned by one instance from `Instance.execute` until every request has its final answer.

    Answers wait in an outbox until `flush`, which the engine calls once after `execute`: the event loop is woken once
    for the whole batch. Decoupled models call `flush` themselves when a response must leave at once.
    """

    __slots__ = (
        "_answered", "_deliver", "_outbox", "config", "inputs_ready_ns", "outputs_ready_ns", "requests", "rows",
        "start_ns", "version",
    )  # fmt: skip

    def __init__(
        self, config: ModelConfig, version: int, requests: Sequence[InferenceRequest], deliver: Deliver
    ) -> None:
        self.config = config
        self.version = version
        self.requests = requests
        self.rows = sum(request.batch_size for request in requests)
        self.start_ns = time.monotonic_ns()
        self.inputs_ready_ns = 0
        self.outputs_ready_ns = 0
        self._answered = [False] * len(requests)
        self._outbox: Answers = []
        self._deliver = deliver

    # --- inputs ---

    def gather(self, name: str) -> npt.NDArray[Any] | None:
        """
        Input `name` of all requests, concatenated along the batch axis and reshaped as the configuration says.

        A single request's input is not copied. None when the requests do not have this (optional) input.
        """
        spec = self.config.input(name)
        arrays = [
            _as_backend_sees(request.inputs[name], spec, self.config.batches)
            for request in self.requests
            if name in request.inputs
        ]
        if not arrays:
            return None
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def mark_inputs_ready(self) -> None:
        """Gathering is over, the model runs now (statistics)."""
        self.inputs_ready_ns = time.monotonic_ns()

    def mark_outputs_ready(self) -> None:
        """The model has run, outputs are being scattered now (statistics)."""
        self.outputs_ready_ns = time.monotonic_ns()

    # --- answers ---

    def respond(
        self,
        index: int,
        outputs: Sequence[Tensor],
        *,
        parameters: Mapping[str, ParameterValue] | None = None,
        final: bool = True,
    ) -> None:
        """Answer request `index` with those of `outputs` that it asked for."""
        request = self.requests[index]
        wanted = {output.name for output in request.outputs}
        kept = [tensor for tensor in outputs if tensor.name in wanted] if wanted else list(outputs)
        self._send(index, InferenceResponse(
            request.model_name, self.version, request.id, kept, parameters or {}, final=final
        ))  # fmt: skip

    def respond_error(self, index: int, error: InferenceError, *, final: bool = True) -> None:
        request = self.requests[index]
        self._send(index, InferenceResponse(
            request.model_name, self.version, request.id, error=error, final=final
        ))  # fmt: skip

    def end(self, index: int) -> None:
        """Send the final flag alone: a decoupled model has no more responses for request `index`."""
        request = self.requests[index]
        self._send(index, InferenceResponse(request.model_name, self.version, request.id, flag_only=True))

    def scatter(self, outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """
        Answer every request with its rows of `outputs`, reshaped back as the configuration says. Nothing is copied.

        A request whose rows are missing from an output gets Triton's UNSUPPORTED error instead.
        """
        if not self.outputs_ready_ns:
            self.mark_outputs_ready()
        row = 0
        for index, request in enumerate(self.requests):
            try:
                tensors = [self._slice(request, name, array, row) for name, array in outputs.items()]
            except InferenceError as error:
                self.respond_error(index, error)
            else:
                self.respond(index, tensors)
            row += request.batch_size

    def fail(self, error: InferenceError) -> None:
        """Answer every request that has no final answer yet with `error`."""
        for index, answered in enumerate(self._answered):
            if not answered:
                self.respond_error(index, error)

    @property
    def unanswered(self) -> list[int]:
        """Indexes of the requests without a final answer."""
        return [index for index, answered in enumerate(self._answered) if not answered]

    def flush(self) -> None:
        """Hand the answers collected so far to the event loop."""
        if self._outbox:
            answers, self._outbox = self._outbox, []
            self._deliver(answers)

    def times(self, end_ns: int) -> ExecutionTimes:
        """The execution's clock, with the edges that the backend did not mark filled in."""
        inputs_ready = self.inputs_ready_ns or self.start_ns
        return ExecutionTimes(self.start_ns, inputs_ready, self.outputs_ready_ns or end_ns, end_ns)

    def _send(self, index: int, response: InferenceResponse) -> None:
        if self._answered[index]:
            raise InternalError("a response was sent after the final response of its request")
        self._answered[index] = response.final
        self._outbox.append((self.requests[index], response))

    def _slice(self, request: InferenceRequest, name: str, array: npt.NDArray[Any], row: int) -> Tensor:
        spec = self.config.output(name)
        if self.config.batches:
            end = row + request.batch_size
            if array.ndim == 0 or array.shape[0] < end:
                raise UnsupportedError(
                    f"{request.error_prefix}failed to split the output tensor '{name}' in responses: expected batch "
                    f"size of at least {end} in model output, got {array.shape[0] if array.ndim else 0}"
                )
            if len(array) != request.batch_size:
                array = array[row:end]
        if spec is not None and spec.reshape is not None:
            array = _as_client_sees(array, spec, self.config.batches)
        raw_bits = spec is not None and spec.datatype is DataType.BF16 and array.dtype == DataType.BF16.numpy_dtype
        return Tensor.from_numpy(name, array, DataType.BF16 if raw_bits else None)


def _as_backend_sees(tensor: Tensor, spec: TensorSpec | None, batches: bool) -> npt.NDArray[Any]:
    array = tensor.as_numpy()
    if spec is None or spec.reshape is None:
        return array
    lead = 1 if batches else 0
    variable = iter([size for size, dim in zip(array.shape[lead:], spec.dims, strict=True) if dim == -1])
    return array.reshape(*array.shape[:lead], *(next(variable) if dim == -1 else dim for dim in spec.reshape))


def _as_client_sees(array: npt.NDArray[Any], spec: TensorSpec, batches: bool) -> npt.NDArray[Any]:
    """Undo the reshape of an output. Raises InternalError when the model produced another size."""
    lead = 1 if batches else 0
    produced = array.shape[lead:]
    variable = iter([
        size for size, dim in zip(produced, spec.reshape or (), strict=False) if dim == -1
    ])  # fmt: skip
    shape = (*array.shape[:lead], *(next(variable, 0) if dim == -1 else dim for dim in spec.dims))
    if prod(shape) != array.size:
        raise InternalError(f"output tensor shape does not match size of output for '{spec.name}'")
    return array.reshape(shape)
