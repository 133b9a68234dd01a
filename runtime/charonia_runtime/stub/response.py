"""`pb_utils.InferenceResponse` and the sender through which a model answers a request by itself."""

import json
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from charonia_runtime.core.request import ParameterValue
from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.ipc.messages import ResponseRecord, Status, pack_outputs, pack_response
from charonia_runtime.ipc.packing import Packer
from charonia_runtime.stub.context import context
from charonia_runtime.stub.exceptions import TritonError, TritonModelException, core_code, from_core, refuse
from charonia_runtime.stub.session import Mailbox, Session
from charonia_runtime.stub.tensor import Tensor

COMPLETE_FINAL = 1
FINAL_FLAG = 1
RESPONSE_FLAG = 2
_RESPONSES_AHEAD = 8
_BYTES_AHEAD = 1 << 17
"""After so many responses, or bytes of them, the server is asked for room; its answer is waited for as much later."""
_LARGE_BYTES = 1 << 20
"""After so many bytes it is waited for at once."""
_SIGNATURE = (
    "c_python_backend_utils.InferenceResponse(output_tensors: List[c_python_backend_utils.Tensor] = [], "
    "error: c_python_backend_utils.TritonError = None, parameters: dict = None)"
)


class InferenceResponse:
    """One response: tensors, or an error."""

    __slots__ = ("_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: Iterable[Tensor] = (),
        error: TritonError | None = None,
        parameters: Mapping[str, ParameterValue] | None = None,
    ) -> None:
        if error is not None and not isinstance(error, TritonError):
            raise refuse(_SIGNATURE, output_tensors, *([] if error is None else [error]))
        outputs = list(output_tensors)
        for tensor in outputs:
            if tensor is None:
                raise TritonModelException("Output tensor for inference response should not be empty.")
            if not isinstance(tensor, Tensor):
                raise refuse(_SIGNATURE, output_tensors, *([] if error is None else [error]))
        self._outputs = outputs
        self._error = error
        self._parameters = check_parameters(parameters) if parameters else {}

    def output_tensors(self) -> list[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def parameters(self) -> str:
        """As a JSON object."""
        return json.dumps(self._parameters)

    def pack(self, packer: Packer) -> None:
        """Not for models: add the response to a frame."""
        outputs, parameters = self._outputs, self._parameters
        if self._error is not None:
            code = core_code(self._error)
            pack_response(packer, ResponseRecord(Status.ERROR, (), self._error.message(), code, parameters))
        elif parameters:
            wire = [tensor.to_wire() for tensor in outputs]
            pack_response(packer, ResponseRecord(Status.OUTPUTS, wire, parameters=parameters))
        else:
            pack_outputs(packer, len(outputs))
            for tensor in outputs:
                tensor.pack(packer)

    @classmethod
    def from_record(cls, record: ResponseRecord) -> "InferenceResponse":
        """Not for models: the answer of another model."""
        if record.status == Status.ERROR:
            return cls(error=from_core(record.message, record.code))
        return cls([Tensor.from_wire(tensor) for tensor in record.outputs], parameters=record.parameters)


def check_parameters(parameters: Any) -> dict[str, ParameterValue]:
    """The parameters of a request or a response. Raises TritonModelException for keys and values of other types."""
    if not isinstance(parameters, dict):
        raise TritonModelException(f"Expect N8pybind114dictE, got {type(parameters)}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found type {type(key)}")
        if not isinstance(value, bool | int | str):
            raise TritonModelException(f"Expect parameters values to have type bool/int/str, found type {type(value)}")
    return dict(parameters)


class Exchange:
    """
    One request of a running batch as this process sees it: what has been answered already.

    When the last reference to a request goes and its final response was never sent, the server is told: nobody can
    send it any more.

    Only the thread that runs `execute` waits for a slow client, and only for a request of the batch that it executes:
    there it delays nobody else. Whatever is sent from elsewhere is kept by the server until its limit cuts the client.
    """

    __slots__ = (
        "_ahead", "_bytes_ahead", "_lock", "_room", "batch", "closed", "decoupled", "held_back", "index", "sent",
        "session",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        batch: int,
        index: int,
        *,
        decoupled: bool,
        closed: bool = False,
        held_back: bool = False,
    ) -> None:
        self.session = session
        self.batch = batch
        self.index = index
        self.decoupled = decoupled
        self.closed = closed
        self.sent = 0
        self.held_back = held_back
        """Whether responses wait for the request's client."""
        self._room: tuple[int, Mailbox] | None = None
        self._ahead = self._bytes_ahead = 0
        """What was sent since the server was asked for room."""
        self._lock = Lock()

    def __del__(self) -> None:
        self._forget_room()
        if not self.closed and self.session.alive:
            self.session.send(FrameKind.ABANDONED, entry=self.index, number=self.batch)

    def is_cancelled(self) -> bool:
        return self.session.is_cancelled(self.batch, self.index)

    def send(self, response: InferenceResponse | None, flags: int) -> None:
        """Send a response, the final flag, or both. Raises TritonModelException where Triton does."""
        size = 0
        with self._lock:
            final = self._check(response, flags)
            if response is not None:
                self.sent += 1
                size = self.session.send_packed(
                    FrameKind.RESPONSE,
                    response.pack,
                    entry=self.index,
                    number=self.batch,
                    flags=RESPONSE_FLAG | (FINAL_FLAG if final else 0),
                )
            else:
                self.session.send(FrameKind.RESPONSE, entry=self.index, number=self.batch, flags=FINAL_FLAG)
            self.closed = final
        if self.held_back and not final and context.runs_here(self.batch):
            self._keep_pace(size)

    def _keep_pace(self, size: int) -> None:
        """Wait for the client, which is not much behind, after a response of `size` bytes."""
        self._ahead += 1
        self._bytes_ahead += size
        if self._ahead < _RESPONSES_AHEAD and self._bytes_ahead < _BYTES_AHEAD:
            return
        self._await_room()
        self._room = self.session.ask_about(FrameKind.ROOM, self.batch, self.index)
        if self._bytes_ahead >= _LARGE_BYTES:
            self._await_room()
        self._ahead = self._bytes_ahead = 0

    def _await_room(self) -> None:
        """Wait for the answer to the last question whether there is room."""
        if self._room is not None:
            self.session.wait(self._room[1])
            self._forget_room()

    def _forget_room(self) -> None:
        if self._room is not None:
            self.session.close_mailbox(self._room[0])
            self._room = None

    def _check(self, response: InferenceResponse | None, flags: int) -> bool:
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError(f"send(): expected an InferenceResponse, found type {type(response)}")
        if flags not in {0, COMPLETE_FINAL}:
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if response is None and flags == 0:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if self.closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        if not self.decoupled and response is not None and self.sent:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send more than one response."
            )
        if not self.decoupled and response is None and not self.sent:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
            )
        return flags == COMPLETE_FINAL


class InferenceResponseSender:
    """Sends the responses of one request, from any thread, during `execute` and after it."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        self._exchange.send(response, flags)

    def is_cancelled(self) -> bool:
        return self._exchange.is_cancelled()
