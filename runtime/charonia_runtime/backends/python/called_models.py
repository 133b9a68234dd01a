"""Requests that a model makes of other models, run through the server like any client's."""

from typing import Protocol

from charonia_runtime.backends.python.stub_process import StubProcess
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import ErrorCode, InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.instances import placements
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, RequestedOutput, SequenceId, Trace
from charonia_runtime.core.server import InferenceServer, ServedModel
from charonia_runtime.ipc.frames import Frame, FrameKind
from charonia_runtime.ipc.messages import RequestRecord, ResponseRecord, Status, pack_response

FINAL_FLAG = 1
RESPONSE_FLAG = 2
DECOUPLED_FLAG = 1
_START, _END = 1, 2


class Caller(Protocol):
    """What runs in a child, as far as its calls need to know."""

    @property
    def callers(self) -> tuple[str, ...]:
        """The models that wait for what runs now, outermost first; empty when nobody does."""

    def trace(self, batch: int, index: int) -> Trace | None:
        """The trace of a request that runs; None when it is not recorded, or not there any more."""


class CalledModels:
    """The calls of one child that are not answered yet. Used on the event loop."""

    def __init__(self, stub: StubProcess, server: InferenceServer | None) -> None:
        self._stub = stub
        self._server = server
        self._calls: dict[int, InferenceRequest] = {}

    @property
    def waiting(self) -> bool:
        """Whether the child waits for other models."""
        return bool(self._calls)

    def submit(self, frame: Frame, caller: Caller) -> None:
        """Run the request in the frame; the child gets the responses, or the error, under the frame's number."""
        record = self._stub.messages.request(frame, self._stub.segments.borrow)
        name = str(record.rest["model_name"])
        version = int(record.rest["model_version"])
        decoupled = bool(frame.flags & DECOUPLED_FLAG)
        prefix = f"Model {name} - Error when running inference: "
        try:
            if self._server is None:
                raise InternalError("the server cannot be reached from this model")
            served = self._find(self._server, name, version)
            callers = caller.callers
            _check(served.config, callers, decoupled=decoupled)
            request = _request(record, name, version, _Sink(self, frame.number, decoupled=decoupled), callers)
            if "trace" in record.rest:
                traced = caller.trace(*record.rest["trace"])
                request.trace = None if traced is None else traced.spawn(name)
            self._calls[frame.number] = request
            self._server.submit(request)
        except InferenceError as error:
            self._calls.pop(frame.number, None)
            self.send(frame.number, ResponseRecord(Status.ERROR, (), prefix + error.message, error.code), final=True)

    def cancel(self, number: int) -> None:
        """The model does not want the responses any more."""
        request = self._calls.get(number)
        if request is not None and self._server is not None:
            self._server.cancel(request)

    def close(self) -> None:
        """The child is gone: cancel what it waited for."""
        for number in list(self._calls):
            self.cancel(number)
        self._calls.clear()

    def send(self, number: int, response: ResponseRecord | None, *, final: bool) -> None:
        """Send one response, or the final flag alone, to the child."""
        packer = self._stub.packer()
        flags = FINAL_FLAG if final else 0
        if response is not None:
            flags |= RESPONSE_FLAG
            try:
                pack_response(packer, response)
            except InternalError as error:
                packer.undo()
                packer = self._stub.packer()
                pack_response(packer, ResponseRecord(Status.ERROR, (), error.message))
            packer.copy()
            packer.lend()
        self._stub.send(
            packer.frame(FrameKind.CALLED_RESPONSE, flags=flags, entry=int(response is not None), number=number)
        )

    def finish(self, number: int) -> bool:
        """The last response is there. False when nobody waits for it any more."""
        return self._calls.pop(number, None) is not None

    def waits(self, number: int) -> bool:
        return number in self._calls

    def _find(self, server: InferenceServer, name: str, version: int) -> ServedModel:
        try:
            return server.find_model(name, version)
        except InferenceError as error:
            raise type(error)(f"Failed for execute the inference request. Model '{name}' is not ready.") from error


class _Sink:
    """Takes the responses of a called model. Unless the call is decoupled, the child gets exactly one."""

    __slots__ = ("_calls", "_count", "_decoupled", "_number", "_response")

    def __init__(self, calls: CalledModels, number: int, *, decoupled: bool) -> None:
        self._calls = calls
        self._number = number
        self._decoupled = decoupled
        self._response: ResponseRecord | None = None
        self._count = 0

    def send(self, response: InferenceResponse) -> None:
        record = None if response.flag_only else _record(response)
        wanted = self._calls.finish(self._number) if response.final else self._calls.waits(self._number)
        if not wanted:
            return
        if self._decoupled:
            self._calls.send(self._number, record, final=response.final)
            return
        if record is not None:
            self._response = record
            self._count += 1
        if response.final:
            if self._count != 1:
                text = f"expected a single response, got {self._count}"
                self._response = ResponseRecord(Status.ERROR, (), text)
            self._calls.send(self._number, self._response, final=True)


def _record(response: InferenceResponse) -> ResponseRecord:
    error = response.error
    if error is not None:
        return ResponseRecord(Status.ERROR, (), error.message, error.code, response.parameters)
    return ResponseRecord(Status.OUTPUTS, response.outputs, "", ErrorCode.INTERNAL, response.parameters)


def _request(record: RequestRecord, name: str, version: int, sink: _Sink, callers: tuple[str, ...]) -> InferenceRequest:
    """Raises InvalidArgumentError when two inputs have one name."""
    request = InferenceRequest(
        name,
        {},
        sink,
        version,
        record.id,
        [RequestedOutput(output) for output in record.output_names],
        dict(record.parameters),
        timeout_us=record.timeout_us,
        callers=callers,
    )
    for tensor in record.inputs:
        if tensor.name in request.inputs:
            raise InvalidArgumentError(f"{request.error_prefix}input '{tensor.name}' already exists in request")
        request.inputs[tensor.name] = tensor
    if record.correlation_id or record.flags:
        start, end = bool(record.flags & _START), bool(record.flags & _END)
        request.sequence = SequenceId(record.correlation_id, start, end)
    return request


def _check(config: ModelConfig, callers: tuple[str, ...], *, decoupled: bool) -> None:
    """Raises InternalError for calls that could never be answered."""
    if config.decoupled and not decoupled:
        raise InternalError(
            f"Model {config.name} is using the decoupled. The current BLS request call doesn't support models using "
            "the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' "
            "calls for decoupled models.'"
        )
    waiting = callers.count(config.name)
    if waiting and waiting >= len(placements(config)):
        raise InternalError(
            f"Model '{config.name}' cannot be called here: all of its {waiting} instance(s) wait for the answer of "
            f"this call ({' -> '.join(callers)} -> {config.name}). Give it more instances than the loop is deep."
        )
