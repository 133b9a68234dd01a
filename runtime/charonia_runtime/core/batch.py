"""Requests that run together: inputs gathered along the batch axis, outputs scattered back, every request answered."""

import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import AnyArray, DeviceArray, DeviceBuffer
from charonia_runtime.core.errors import InferenceError, InternalError, UnsupportedError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ParameterValue, RequestedOutput
from charonia_runtime.core.reshaping import backend_shape, client_shape
from charonia_runtime.core.states import SequenceStates, take_states
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.core.tensor import Tensor, bytes_of

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
        "_answered", "_deliver", "_outbox", "_unanswered", "config", "end_ns", "inputs_ready_ns", "outputs_ready_ns",
        "requests", "rescheduled", "rows", "start_ns", "states", "version",
    )  # fmt: skip

    def __init__(
        self, config: ModelConfig, version: int, requests: Sequence[InferenceRequest], deliver: Deliver
    ) -> None:
        self.config = config
        self.version = version
        self.requests = requests
        self.rows = sum([request.batch_size for request in requests])
        self.start_ns = time.monotonic_ns()
        self.inputs_ready_ns = 0
        self.outputs_ready_ns = 0
        self.end_ns = 0
        self.states: list[SequenceStates] | None = None
        """What the model made of each request's sequence; None where it has no states or failed."""
        self.rescheduled: list[int] = []
        """Indexes of the requests that the model wants to see again instead of ending them."""
        self._unanswered = len(requests)
        self._answered = [False] * self._unanswered
        self._outbox: Answers = []
        self._deliver = deliver

    # --- inputs ---

    def gather(self, name: str) -> npt.NDArray[Any] | None:
        """
        Input `name` of all requests, concatenated along the batch axis and reshaped as the configuration says.

        A single request's input is not copied. A ragged input is flat: all elements of all requests, one after the
        other. None when the requests do not have this (optional) input.
        """
        tensors = [request.inputs[name] for request in self.requests if name in request.inputs]
        if not tensors:
            return None
        spec = self.config.input(name)
        if spec is not None and spec.allow_ragged:
            return np.concatenate([tensor.as_numpy().reshape(-1) for tensor in tensors])
        array = tensors[0].as_numpy() if len(tensors) == 1 else _concatenate(tensors)
        if spec is None or spec.reshape is None:
            return array
        return array.reshape(backend_shape(spec, array.shape, batches=self.config.batches))

    def pieces(self, name: str) -> list[AnyArray]:
        """
        Input `name` of each request, reshaped as the configuration says, where it lies: on the host or on a device.

        For backends that can read a device's memory. A ragged input is flat. Empty when the requests do not have this
        (optional) input.
        """
        spec, batches = self.config.input(name), self.config.batches
        arrays: list[AnyArray] = [
            tensor.on_device or tensor.as_numpy() for request in self.requests if (tensor := request.inputs.get(name))
        ]
        if spec is not None and spec.allow_ragged:
            return [array.reshape((array.size,)) for array in arrays]
        if spec is None or spec.reshape is None:
            return arrays
        return [array.reshape(backend_shape(spec, array.shape, batches=batches)) for array in arrays]

    def gathered_shape(self, name: str) -> tuple[int, ...]:
        """The shape that `gather` would give input `name`, which every request has."""
        spec = self.config.input(name)
        tensors = [request.inputs[name] for request in self.requests]
        if spec is not None and spec.allow_ragged:
            return (sum([tensor.element_count for tensor in tensors]),)
        shape = tensors[0].shape
        if spec is not None and spec.reshape is not None:
            shape = backend_shape(spec, shape, batches=self.config.batches)
        return (self.rows, *shape[1:]) if self.config.batches else shape

    def mark_inputs_ready(self) -> None:
        """Gathering is over, the model runs now (statistics)."""
        self.inputs_ready_ns = time.monotonic_ns()

    def mark_outputs_ready(self) -> None:
        """The model has run, outputs are being scattered now (statistics)."""
        self.outputs_ready_ns = time.monotonic_ns()

    def mark_end(self) -> None:
        """The execution is over (statistics); the engine calls it."""
        self.end_ns = time.monotonic_ns()

    # --- answers ---

    def respond(
        self,
        index: int,
        outputs: Sequence[Tensor],
        *,
        parameters: Mapping[str, ParameterValue] | None = None,
        final: bool = True,
    ) -> None:
        """
        Answer request `index` with those of `outputs` that it asked for.

        Tensors that lie on a device are copied to the host unless the request takes them from there.
        """
        request = self.requests[index]
        kept = list(outputs)
        if request.outputs:
            wanted = {output.name for output in request.outputs}
            kept = [tensor for tensor in kept if tensor.name in wanted]
        for tensor in kept:
            if isinstance(tensor.data, DeviceBuffer) and not _takes_on_device(request, tensor.name):
                tensor.data = tensor.data.to_host()
        self._send(index, InferenceResponse(
            request.model_name, self.version, request.id, kept, parameters or {}, final=final
        ))  # fmt: skip

    def respond_error(
        self, index: int, error: InferenceError, *, final: bool = True, chosen_by_model: bool = False
    ) -> None:
        """
        Answer request `index` with an error.

        It counts as a failure in the statistics unless it was `chosen_by_model`: returned by the model's own code as
        its answer.
        """
        request = self.requests[index]
        self._send(index, InferenceResponse(
            request.model_name, self.version, request.id, error=error, final=final, failed=not chosen_by_model
        ))  # fmt: skip

    def end(self, index: int) -> None:
        """Send the final flag alone: a decoupled model has no more responses for request `index`."""
        request = self.requests[index]
        self._send(index, InferenceResponse(request.model_name, self.version, request.id, flag_only=True))

    def reschedule(self, index: int) -> None:
        """Let request `index` come again in a later batch: a step of an iterative sequence that is not its last."""
        if self._answered[index]:
            raise InternalError("a request was rescheduled after its final response")
        self._answered[index] = True
        self._unanswered -= 1
        self.rescheduled.append(index)

    def wanted_on_device(self) -> frozenset[str]:
        """The outputs that some request takes from a device's memory, so that they are worth leaving there."""
        return frozenset([
            output.name for request in self.requests for output in request.outputs if _is_on_device(output)
        ])  # fmt: skip

    def scatter(
        self, outputs: Mapping[str, AnyArray], cut: Mapping[str, Sequence[npt.NDArray[Any]]] | None = None
    ) -> None:
        """
        Answer every request with its rows of `outputs`, reshaped back as the configuration says. Nothing is copied,
        but from a device to the host, for the requests that want it there: this is where tensors leave devices.

        `cut` holds outputs that the backend has already divided: one array for each request, given back as it is.
        A request whose rows are missing from an output gets Triton's UNSUPPORTED error instead. Outputs that are states
        of the requests' sequences are kept for the engine; raises InternalError when they are not as configured.
        """
        if not self.outputs_ready_ns:
            self.mark_outputs_ready()
        if self.config.states:
            self.states, outputs = take_states(self.config, self.requests, outputs)
        columns = [self._column(name, array) for name, array in outputs.items()]
        start = 0
        for index, request in enumerate(self.requests):
            end = start + request.batch_size
            chosen = columns
            if request.outputs:
                wanted = {output.name for output in request.outputs}
                chosen = [column for column in columns if column.name in wanted]
            try:
                tensors = [column.cut(request, start, end) for column in chosen]
            except InferenceError as error:
                self.respond_error(index, error)
            else:
                if cut is not None:
                    tensors += self._pieces(index, cut)
                self._send(index, InferenceResponse(request.model_name, self.version, request.id, tensors))
            start = end

    def fail(self, error: InferenceError) -> None:
        """Answer every request that has no final answer yet with `error`."""
        for index, answered in enumerate(self._answered):
            if not answered:
                self.respond_error(index, error)

    @property
    def unanswered(self) -> list[int]:
        """Indexes of the requests without a final answer."""
        return [index for index, answered in enumerate(self._answered) if not answered]

    @property
    def complete(self) -> bool:
        """Whether every request has its final answer."""
        return self._unanswered == 0

    def flush(self) -> None:
        """Hand the answers collected so far to the event loop."""
        if self._outbox:
            self._deliver(self.take_answers())

    def take_answers(self) -> Answers:
        """The answers collected since the last flush, for the engine to deliver."""
        answers, self._outbox = self._outbox, []
        return answers

    def times(self) -> ExecutionTimes:
        """The execution's clock, with the edges that were not marked filled in."""
        end_ns = self.end_ns or time.monotonic_ns()
        inputs_ready = self.inputs_ready_ns or self.start_ns
        return ExecutionTimes(self.start_ns, inputs_ready, self.outputs_ready_ns or end_ns, end_ns)

    def _send(self, index: int, response: InferenceResponse) -> None:
        if self._answered[index]:
            raise InternalError("a response was sent after the final response of its request")
        if response.final:
            self._answered[index] = True
            self._unanswered -= 1
        self._outbox.append((self.requests[index], response))

    def _column(self, name: str, array: AnyArray) -> "_Column | _DeviceColumn":
        spec = self.config.output(name)
        batches = self.config.batches
        if spec is not None and spec.reshape is not None and (array.ndim or not batches):
            array = array.reshape(client_shape(spec, array.shape, batches=batches))
        if isinstance(array, DeviceArray):
            return _DeviceColumn(name, array, batches=batches)
        return _Column(name, array, _datatype_of(array, spec), batches=batches)

    def _pieces(self, index: int, cut: Mapping[str, Sequence[npt.NDArray[Any]]]) -> list[Tensor]:
        wanted = {output.name for output in self.requests[index].outputs} or cut.keys()
        return [
            Tensor.from_numpy(name, pieces[index], _datatype_of(pieces[index], self.config.output(name)))
            for name, pieces in cut.items()
            if name in wanted
        ]


class _Column:
    """One output of the whole batch, made bytes once and cut into the requests' rows without a copy."""

    __slots__ = ("_array", "_batches", "_buffer", "_datatype", "_row_bytes", "_rows", "_tail", "name")

    def __init__(self, name: str, array: npt.NDArray[Any], datatype: DataType, *, batches: bool) -> None:
        self.name = name
        self._array = array
        self._datatype = datatype
        self._batches = batches
        self._buffer = None if datatype is DataType.BYTES else bytes_of(array)
        self._rows = array.shape[0] if array.ndim else 0
        self._tail = array.shape[1:]
        self._row_bytes = array.itemsize * prod(self._tail)

    def cut(self, request: InferenceRequest, start: int, end: int) -> Tensor:
        """The rows from `start` to `end` for `request`. Raises UnsupportedError when the model made fewer."""
        if not self._batches:
            if self._buffer is None:
                return Tensor.from_numpy(self.name, self._array, self._datatype)
            return Tensor(self.name, self._datatype, self._array.shape, self._buffer)
        if self._rows < end:
            raise _too_few_rows(request, self.name, end, self._rows)
        if self._buffer is None:
            return Tensor.from_numpy(self.name, self._array[start:end], self._datatype)
        piece = self._buffer[start * self._row_bytes : end * self._row_bytes]
        return Tensor(self.name, self._datatype, (end - start, *self._tail), piece)


class _DeviceColumn:
    """The same of an output that lies on a device. Requests that do not take it from there get a copy on the host."""

    __slots__ = ("_array", "_batches", "name")

    def __init__(self, name: str, array: DeviceArray, *, batches: bool) -> None:
        self.name = name
        self._array = array
        self._batches = batches

    def cut(self, request: InferenceRequest, start: int, end: int) -> Tensor:
        """Raises UnsupportedError when the model made fewer rows, InternalError when they cannot be copied."""
        array = self._array
        shape, piece = array.shape, array.buffer
        if self._batches:
            rows = shape[0] if shape else 0
            if rows < end:
                raise _too_few_rows(request, self.name, end, rows)
            row_bytes = array.datatype.item_size * prod(shape[1:])
            shape, piece = (end - start, *shape[1:]), piece[start * row_bytes : end * row_bytes]
        data = piece if _takes_on_device(request, self.name) else piece.to_host()
        return Tensor(self.name, array.datatype, shape, data)


def _takes_on_device(request: InferenceRequest, name: str) -> bool:
    """Whether output `name` may lie on a device when the request is answered."""
    return any(_is_on_device(output) for output in request.outputs if output.name == name)


def _is_on_device(output: RequestedOutput) -> bool:
    return output.on_device or isinstance(output.memory, DeviceBuffer)


def _too_few_rows(request: InferenceRequest, name: str, wanted: int, rows: int) -> UnsupportedError:
    return UnsupportedError(
        f"{request.error_prefix}failed to split the output tensor '{name}' in responses: expected batch size of at "
        f"least {wanted} in model output, got {rows}"
    )


def _datatype_of(array: npt.NDArray[Any], spec: TensorSpec | None) -> DataType:
    """What an output's array holds; 16 raw bits are BF16 where the configuration says so."""
    raw_bits = spec is not None and spec.datatype is DataType.BF16 and array.dtype == DataType.BF16.numpy_dtype
    return DataType.BF16 if raw_bits else DataType.from_numpy(array.dtype)


def _concatenate(tensors: Sequence[Tensor]) -> npt.NDArray[Any]:
    """The tensors' rows in one new array. One join of buffers costs a tenth of as many small arrays."""
    first = tensors[0]
    tail = first.shape[1:]
    joinable = first.datatype is not DataType.BYTES and all(tensor.shape[1:] == tail for tensor in tensors)
    if not joinable:
        return np.concatenate([tensor.as_numpy() for tensor in tensors])
    rows = sum([tensor.shape[0] for tensor in tensors])
    joined = b"".join([tensor.buffer for tensor in tensors])
    return np.frombuffer(joined, dtype=first.datatype.numpy_dtype).reshape(rows, *tail)
