"""`pb_utils.InferenceRequest`: a request that came from the server, or one for another model."""
# ruff: noqa: SLF001  # requests from the server are filled in without `__init__`

import json
from collections.abc import Awaitable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

from charonia_runtime.core.request import ParameterValue
from charonia_runtime.ipc.frames import Frame
from charonia_runtime.ipc.messages import HELD_BACK, RequestLayout, RequestRecord
from charonia_runtime.ipc.packing import View
from charonia_runtime.stub import arguments, called_models
from charonia_runtime.stub.context import context
from charonia_runtime.stub.exceptions import TritonModelException, refuse
from charonia_runtime.stub.response import Exchange, InferenceResponse, InferenceResponseSender, check_parameters
from charonia_runtime.stub.tensor import Tensor

if TYPE_CHECKING:
    from charonia_runtime.stub.called_models import ResponseIterator


class MemoryType(IntEnum):
    """Where a tensor lies."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1

    __str__ = Enum.__str__


MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
RELEASE_ALL = 1
RELEASE_RESCHEDULE = 2
_SEQUENCE_FLAGS = 3
_SIGNATURE = (
    "c_python_backend_utils.InferenceRequest(request_id: str = '', correlation_id: object = 0, "
    "inputs: List[c_python_backend_utils.Tensor], requested_output_names: List[str], model_name: str, "
    "model_version: int = -1, flags: int = 0, timeout: int = 0, "
    "preferred_memory: c_python_backend_utils.PreferredMemory = PreferredMemory(), "
    "trace: c_python_backend_utils.InferenceTrace = InferenceTrace(), parameters: object = None)"
)


class InferenceTrace:
    """The record of a request, where there is one; a call that is made with it is recorded below it."""

    __slots__ = ("_context", "_request")

    def __init__(self) -> None:
        self._context: str | None = None
        self._request: tuple[int, int] | None = None

    @classmethod
    def of(cls, batch: int, index: int, context: str | None) -> "InferenceTrace":
        """Not for models: that of a received request, which is recorded."""
        trace = cls()
        trace._request = (batch, index)
        trace._context = context
        return trace

    @property
    def request(self) -> tuple[int, int] | None:
        """Not for models: batch and index of the request that is recorded."""
        return self._request

    def get_context(self) -> str | None:
        return self._context


class PreferredMemory:
    """Where the outputs of a called model should lie. Outputs always lie on the host here."""

    __slots__ = ("_device_id", "_kind")

    def __init__(self, preferred_memory_type: int, preferred_device_id: int = 0) -> None:
        if preferred_memory_type not in {MEMORY_CPU, MEMORY_GPU}:
            raise refuse(
                "c_python_backend_utils.PreferredMemory(preferred_memory_type: "
                "c_python_backend_utils.MemoryType, preferred_device_id: int = 0)",
                preferred_memory_type, preferred_device_id,
            )  # fmt: skip
        self._kind = preferred_memory_type
        self._device_id = preferred_device_id


class InferenceRequest:
    """One request. Inputs and properties of a received one are read through methods."""

    __slots__ = (
        "_answered", "_batch", "_body", "_exchange", "_index", "_inputs", "_known", "_layout", "_model_name",
        "_model_version", "_release_flags", "_trace",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917  # Triton's signature
        self,
        request_id: str | bytes = "",
        correlation_id: int | str | None = 0,
        inputs: Sequence[Tensor] | None = None,
        requested_output_names: Sequence[str | bytes] | None = None,
        model_name: str | bytes | None = None,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory | None = None,
        trace: InferenceTrace | None = None,
        parameters: Mapping[str, ParameterValue] | None = None,
    ) -> None:
        given = {
            "request_id": request_id, "inputs": inputs, "requested_output_names": requested_output_names,
            "model_name": model_name, "model_version": model_version, "flags": flags, "timeout": timeout,
        }  # fmt: skip
        try:
            request_id, model_name = arguments.text(request_id), arguments.text(model_name)
            model_version, flags = arguments.version(model_version), arguments.flag_bits(flags)
            timeout = arguments.microseconds(timeout)
            self._inputs: list[Tensor] = arguments.items(inputs)
            names = [arguments.text(name) for name in arguments.items(requested_output_names)]
        except TypeError:
            raise refuse(_SIGNATURE, **{name: value for name, value in given.items() if value is not None}) from None
        if trace is not None and not isinstance(trace, InferenceTrace):
            raise refuse(_SIGNATURE, model_name=model_name, trace=trace)
        if preferred_memory is not None and not isinstance(preferred_memory, PreferredMemory):
            raise refuse(_SIGNATURE, model_name=model_name, preferred_memory=preferred_memory)
        if correlation_id is None:
            raise refuse(_SIGNATURE, model_name=model_name, correlation_id=correlation_id)
        try:
            correlation_id = arguments.correlation_id(correlation_id)
        except TypeError as error:
            raise TritonModelException(str(error)) from None
        where = f"for request with id '{request_id}' and model name '{model_name}' should not be empty."
        if any(tensor is None for tensor in self._inputs):
            raise TritonModelException(f"Input tensor {where}")
        if not all(isinstance(tensor, Tensor) for tensor in self._inputs):
            raise refuse(_SIGNATURE, model_name=model_name, inputs=self._inputs)
        if not all(names):
            raise TritonModelException(f"Requested output name {where}")
        rest = {"parameters": check_parameters(parameters)} if parameters is not None else {}
        self._known: RequestRecord | None = RequestRecord(
            request_id, [], tuple(names), flags, timeout, correlation_id, rest
        )
        self._layout: RequestLayout | None = None
        self._body = memoryview(b"")
        self._batch = self._index = 0
        self._model_name = model_name
        self._model_version = model_version
        self._trace = trace
        self._exchange: Exchange | None = None
        self._answered = False
        self._release_flags = RELEASE_ALL

    @classmethod
    def received(cls, layout: RequestLayout, frame: Frame, index: int, view: View) -> "InferenceRequest":
        """Not for models: request `index` of the batch in `frame`. What few models ask for is read when they do."""
        request = cls.__new__(cls)
        body = frame.body
        request._layout = layout
        request._body = body
        request._inputs = [Tensor.received(place, body, view) for place in layout.inputs]
        request._batch = frame.number
        request._index = index
        request._known = None
        request._exchange = None
        request._answered = False
        request._release_flags = RELEASE_ALL
        request._trace = None
        request._model_name = ""
        request._model_version = -1
        return request

    @property
    def _record(self) -> RequestRecord:
        record = self._known
        if record is None:
            if self._layout is None:
                raise TritonModelException("InferenceRequest.__init__() must be called when overriding __init__")
            record = self._known = self._layout.read(self._body)
            if not record.output_names and "wants_nothing" not in record.rest:
                record.output_names = context.output_names
        return record

    def exchange(self) -> Exchange:
        """Not for models: through which the request is answered by hand."""
        if self._exchange is None:
            if self._layout is None:
                raise TritonModelException("Only requests that a model received have a response sender.")
            self._exchange = Exchange(
                context.session,
                self._batch,
                self._index,
                decoupled=context.decoupled,
                closed=self._answered,
                held_back=context.decoupled and bool(self._layout.flags & HELD_BACK),
            )
        return self._exchange

    def close(self) -> None:
        """Not for models: the request has its final answer."""
        self._answered = True
        if self._exchange is not None:
            self._exchange.closed = True

    @property
    def closed(self) -> bool:
        """Not for models: whether the request has its final answer."""
        return self._answered or (self._exchange is not None and self._exchange.closed)

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._record.id

    def correlation_id(self) -> int | str:
        return self._record.correlation_id

    def flags(self) -> int:
        return self._record.flags

    def set_flags(self, flags: int) -> None:
        self._record.flags = arguments.flag_bits(flags)

    def timeout(self) -> int:
        """Microseconds; 0 for none."""
        return self._record.timeout_us

    def parameters(self) -> str:
        """Custom parameters as a JSON object, spaced as in Triton: there only what the server writes is compact."""
        separators = None if self._layout is None else (",", ":")
        return json.dumps(self._record.parameters, separators=separators)

    def requested_output_names(self) -> set[str]:
        return set(self._record.output_names)

    def trace(self) -> InferenceTrace:
        if self._trace is None:
            rest = self._record.rest
            traced = "trace" in rest
            self._trace = InferenceTrace.of(self._batch, self._index, rest["trace"]) if traced else InferenceTrace()
        return self._trace

    def is_cancelled(self) -> bool:
        """Whether the client is gone, now."""
        return self._layout is not None and context.session.is_cancelled(self._batch, self._index)

    def get_response_sender(self) -> InferenceResponseSender:
        return InferenceResponseSender(self.exchange())

    def set_release_flags(self, flags: int) -> None:
        self._release_flags = flags

    def release_flags(self) -> int:
        """Not for models: what `set_release_flags` was told."""
        return self._release_flags

    def exec(self, decoupled: bool = False) -> "InferenceResponse | ResponseIterator":
        """Run the request on its model and wait. With `decoupled`, iterate over the responses."""
        return called_models.execute(self._call(), self._wire_inputs, decoupled=decoupled)

    def async_exec(self, decoupled: bool = False) -> "Awaitable[InferenceResponse | ResponseIterator]":
        """Like `exec`, for coroutines. Raises RuntimeError where no event loop runs."""
        return called_models.execute_async(self._call(), self._wire_inputs, decoupled=decoupled)

    def _wire_inputs(self) -> list[Any]:
        return [tensor.to_wire() for tensor in self._inputs]

    def _call(self) -> RequestRecord:
        record = self._record
        rest = {**record.rest, "model_name": self._model_name, "model_version": self._model_version}
        if self._trace is not None and self._trace.request is not None:
            rest["trace"] = self._trace.request
        else:
            rest.pop("trace", None)
        flags, timeout_us = record.flags & _SEQUENCE_FLAGS, record.timeout_us
        return RequestRecord(record.id, [], record.output_names, flags, timeout_us, record.correlation_id, rest)
